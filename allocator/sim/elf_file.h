/*
 * Writes ELF64 little-endian files with CUDA's machine number: sections in memory, then one buffer. Thread safety: none.
 */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ELF_MACHINE_CUDA 0xbe
#define ELF_MAX_SECTIONS 128
#define ELF_STRINGS UINT32_MAX /* sh_link of a section with names in .strtab, the last section */

struct elf_writer {
    Elf64_Shdr headers[ELF_MAX_SECTIONS];
    unsigned count;
    FILE *contents, *strings; /* the file up to the section headers; .strtab, which also names the sections */
    char *bytes, *names;      /* what they have written */
    size_t size, names_size;
};

void elf_begin(struct elf_writer *writer);
/* Returns the string's index in .strtab. */
uint32_t elf_string(struct elf_writer *writer, const char *text);
/* `header` supplies type, flags, link, info, entsize and alignment; name, offset and size are filled in. Returns the section's
 * index. */
unsigned elf_add(struct elf_writer *writer, const char *name, Elf64_Shdr header, const void *data, size_t size);
/* Frees the writer's buffers. Returns a malloc'ed file. */
unsigned char *elf_finish(struct elf_writer *writer, uint16_t type, unsigned char os_abi, uint32_t flags, size_t *size);
