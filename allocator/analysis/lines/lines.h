/*
 * Source lines from a cubin's .debug_line, versions 2 to 5.
 *
 * Not libdw: a cubin's line sequences all start at address 0 until they are relocated, and then only the relocation of a
 * sequence's DW_LNE_set_address says which function it belongs to, which libdw's sorted table has lost. ptxas also writes
 * an extended opcode of its own, 0x90, that says at which call code was inlined: libdw skips it.
 *
 * Thread safety: pure. Nothing is allocated; the work is bounded by the section's size.
 */
#ifndef CUFENCE_ANALYSIS_LINES_LINES_H
#define CUFENCE_ANALYSIS_LINES_LINES_H

#include "base/image.h"

struct line_query {
    struct span line;     /* .debug_line */
    struct span line_str; /* .debug_line_str and .debug_str, for version 5; may be empty */
    struct span str;
    uint64_t start;  /* load address of the section that holds the PC */
    uint64_t offset; /* of the PC from there */
    /* Says which section the relocation at `offset` of .debug_line points to: 1 and the value in *base, relative to the start
     * of the section of the PC, if it is that section; 0 if it is another; -1 if there is no relocation. */
    int (*relocation)(void *user, uint64_t offset, uint64_t *base);
    void *user;
};

struct line_place {
    const char *file;      /* points into the sections */
    const char *directory; /* NULL if the file's name stands alone */
    int line;
};

/* 1 and *place, if a sequence covers the PC. Code inlined from the CUDA toolkit's headers or Triton's library counts as its
 * caller's line. */
int lines_find(const struct line_query *query, struct line_place *place);

#endif
