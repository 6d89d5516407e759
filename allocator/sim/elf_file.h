/*
 * Writes ELF64 little-endian files with CUDA's machine number: sections in memory, then one buffer.
 * Ownership: the writer copies its input. Errors are sticky: after one, elf_finish() returns NULL. Thread safety: none; a
 * writer belongs to the thread that created it.
 */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_MACHINE_CUDA 0xbe

struct buffer {
    unsigned char *bytes;
    size_t size, capacity;
    int is_failed; /* out of memory */
};

/* Returns the offset of the appended data. */
size_t buffer_append(struct buffer *buffer, const void *data, size_t size);
void buffer_free(struct buffer *buffer);

#define ELF_MAX_SECTIONS 128

struct elf_writer {
    Elf64_Shdr headers[ELF_MAX_SECTIONS];
    unsigned count;
    struct buffer strings;  /* .strtab, which also names the sections */
    struct buffer contents; /* the file up to the section headers */
    int is_failed;
};

void elf_begin(struct elf_writer *writer);
/* Returns the string's index in .strtab. */
uint32_t elf_string(struct elf_writer *writer, const char *text);
/* `header` supplies type, flags, link, info, entsize and alignment; name, offset and size are filled in. Returns the section's
 * index. */
unsigned elf_add(struct elf_writer *writer, const char *name, Elf64_Shdr header, const void *data, size_t size);
/* Links a section to the string table, which is the last section. */
void elf_link_strings(struct elf_writer *writer, unsigned section);
/* Frees the writer's buffers. Returns a malloc'ed file, or NULL if out of memory. */
unsigned char *elf_finish(struct elf_writer *writer, uint16_t type, unsigned char os_abi, uint32_t flags, size_t *size);
