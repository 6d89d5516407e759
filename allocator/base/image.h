/*
 * Bounds-checked reader for an ELF64 little-endian file in memory: a core dump, a cubin inside one, a program or a library.
 * Every offset and size is checked against the file. Nothing is allocated, and no alignment is assumed.
 *
 * libelf is not used: a dump holds thousands of cubins at arbitrary alignment, and only a few header fields are needed. They
 * are copied into <elf.h>'s structs. Returned spans point into the file, which must stay in memory.
 * Thread safety: pure. Errors: 0 or an empty span.
 */
#pragma once

#include "reader.h"

#include <elf.h>

struct image {
    struct span file;
    struct span headers; /* of the sections, section_count of them */
    uint32_t section_count;
    uint32_t names; /* index of the section that names the sections */
    uint16_t machine;
};

/* Returns 1 if the file is ELF64 little-endian and all its section headers are within it. More than 65279 sections are
 * allowed. */
int image_open(const void *bytes, size_t size, struct image *image);

/* Returns the size of the whole file, according to its headers. */
uint64_t image_end(const struct image *image);

/* Copies section header `index` into *section. Returns 1 if that section exists; index 0 never does. */
int image_section(const struct image *image, uint32_t index, Elf64_Shdr *section);

/* Finds the section whose name is `name` and `rest`. Returns its index, 0 if there is none. */
uint32_t image_find(const struct image *image, const char *name, const char *rest, Elf64_Shdr *section);

/* Returns the content of a section; empty if it is not entirely within the file. */
struct span image_content(const struct image *image, const Elf64_Shdr *section);
