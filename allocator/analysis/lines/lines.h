/*
 * Looks up source lines in a cubin's .debug_line, versions 2 to 5.
 *
 * libdw does not work here: until relocated, all line sequences of a cubin start at address 0, and only the relocation of a
 * sequence's DW_LNE_set_address tells which function it belongs to. libdw's sorted table loses that. ptxas also writes its own
 * extended opcode, 0x90, which says at which call code was inlined; libdw skips it.
 *
 * Pure. No allocations; the work is bounded by the section's size.
 */
#ifndef CUFENCE_ANALYSIS_LINES_LINES_H
#define CUFENCE_ANALYSIS_LINES_LINES_H

#include "base/image.h"

struct line_query {
    struct span line;     /* .debug_line */
    struct span line_str; /* .debug_line_str and .debug_str, for version 5; may be empty */
    struct span str;
    uint64_t start;  /* load address of the section that contains the PC */
    uint64_t offset; /* of the PC in that section */
    /* Looks up the relocation at `offset` of .debug_line. Returns 1 if it points to the PC's section, with the value
     * relative to the section's start in *base; 0 if it points to another section; -1 if there is no relocation. */
    int (*relocation)(void *user, uint64_t offset, uint64_t *base);
    void *user;
};

struct cubin_line {
    const char *file;      /* points into the sections */
    const char *directory; /* NULL if `file` has no directory */
    int line;
};

/* Returns 1 and *place if a sequence covers the PC. Code inlined from the headers or libraries of the CUDA toolkit, Triton,
 * Warp and numba counts as its caller's line. */
int lines_find(const struct line_query *query, struct cubin_line *place);

#endif
