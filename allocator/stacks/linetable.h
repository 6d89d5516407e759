/*
 * The line of a bytecode instruction of CPython, from the table of its code object. Pure; a table that ends early or makes no
 * sense gives no line, never a read outside it.
 *
 * Sources: Objects/lnotab_notes.txt in CPython 3.9 and 3.10, InternalDocs/code_objects.md (before: Objects/locations.md) from
 * 3.11 on.
 */
#ifndef CUFENCE_STACKS_LINETABLE_H
#define CUFENCE_STACKS_LINETABLE_H

#include <stddef.h>
#include <stdint.h>

enum linetable_format {
    LINETABLE_LNOTAB,    /* 3.9: co_lnotab */
    LINETABLE_RANGES,    /* 3.10: co_linetable */
    LINETABLE_LOCATIONS, /* 3.11 on: co_linetable */
};

/* `position` counts bytes of bytecode; before the first instruction (negative) it stands for the first line. Returns 0 where
 * the table knows no line. */
int linetable_line(enum linetable_format format, const unsigned char *table, size_t size, int first_line, int position);

#endif
