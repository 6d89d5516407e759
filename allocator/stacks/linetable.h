/*
 * Gets the source line of a CPython bytecode instruction from the line table of its code object. Pure. A truncated or malformed
 * table gives no line, and is never read out of bounds.
 *
 * Sources: Objects/lnotab_notes.txt in CPython 3.9 and 3.10, InternalDocs/code_objects.md (formerly Objects/locations.md) from
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

/* `position` is a byte offset into the bytecode; a negative one, before the first instruction, gives the first line. Returns 0
 * if the table has no line for it. */
int linetable_line(enum linetable_format format, const unsigned char *table, size_t size, int first_line, int position);

#endif
