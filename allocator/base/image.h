/*
 * A bounded view of an ELF64 little-endian file in memory: a core dump, a cubin inside one, a program or library. It reads
 * headers and hands out spans; every offset and size is checked against the file, nothing is allocated, and no alignment is
 * assumed.
 *
 * Not libelf: a dump holds thousands of cubins at any alignment, and the few header fields that are needed are read by memcpy
 * from <elf.h>'s structs. What is handed out points into the file, which must stay.
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
    uint64_t sections_at; /* file offset of the section headers; all section_count of them lie in the file */
    uint32_t section_count;
};

/* 1 if the file is an ELF64 little-endian file whose section headers lie in it. More than 65279 sections are allowed. */
int image_open(const void *bytes, size_t size, struct image *image);

/* Section header `index`, 1 if there is such a section. Index 0 is never one. */
int image_section(const struct image *image, uint32_t index, Elf64_Shdr *section);

/* The bytes of a section; empty if they do not lie in the file. */
struct span image_content(const struct image *image, const Elf64_Shdr *section);

/* `size` bytes at `offset` of a span; empty if they do not lie in it. */
struct span span_part(struct span span, uint64_t offset, uint64_t size);

/* The string at `offset`, NULL unless its NUL lies in the span. */
const char *span_string(struct span span, uint64_t offset);

/* Little-endian numbers; the caller has checked the bounds. */
uint32_t load_u32(const uint8_t *bytes);
uint64_t load_u64(const uint8_t *bytes);

#endif
