/*
 * Bounds-checked reader for an ELF64 little-endian file in memory: a core dump, a cubin inside one, a program or a library.
 * Every offset and size is checked against the file. Nothing is allocated, and no alignment is assumed.
 *
 * libelf is not used: a dump holds thousands of cubins at arbitrary alignment, and only a few header fields are needed. They
 * are copied into <elf.h>'s structs with memcpy. Returned spans point into the file, which must stay in memory.
 * Thread safety: pure. Errors: 0 or an empty span.
 */
#ifndef CUFENCE_BASE_IMAGE_H
#define CUFENCE_BASE_IMAGE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct span {
    const uint8_t *bytes; /* NULL if empty */
    size_t size;
};

struct image {
    struct span file;
    uint16_t machine;
    uint32_t flags;
    uint64_t sections_at; /* file offset of the section headers; all section_count of them are within the file */
    uint32_t section_count;
};

/* Returns 1 if the file is ELF64 little-endian and all its section headers are within it. More than 65279 sections are
 * allowed. */
int image_open(const void *bytes, size_t size, struct image *image);

/* Copies section header `index` into *section. Returns 1 if that section exists; index 0 never does. */
int image_section(const struct image *image, uint32_t index, Elf64_Shdr *section);

/* Returns the content of a section; empty if it is not entirely within the file. */
struct span image_content(const struct image *image, const Elf64_Shdr *section);

/* Returns `size` bytes at `offset` of a span; empty if they are not entirely within it. */
struct span span_part(struct span span, uint64_t offset, uint64_t size);

/* Returns the string at `offset`, or NULL if it is not terminated within the span. */
const char *span_string(struct span span, uint64_t offset);

/* Read little-endian numbers; the caller has checked the bounds. */
uint32_t load_u32(const uint8_t *bytes);
uint64_t load_u64(const uint8_t *bytes);

#endif
