/*
 * A relocated cubin (ELF64, as the driver loaded it): from a PC to its function, its instruction and its source line.
 * A function's symbol value is its load address; a function that the driver has not loaded (lazy loading) has value 0.
 *
 * Thread safety: pure. What is handed out points into the cubin. Errors: 0, or fields left empty.
 */
#ifndef CUFENCE_ANALYSIS_LINES_CUBIN_H
#define CUFENCE_ANALYSIS_LINES_CUBIN_H

#include "base/image.h"

struct cubin_function {
    const char *symbol; /* of the kernel, or of the function that was compiled on its own; as in the symbol table */
    int is_kernel;      /* `symbol` is one that the host can launch */
    const char *inner;  /* the called function in it that holds the PC ("$kernel$function"), else the same as symbol */
    uint64_t start;     /* load address of `symbol`, and its bytes */
    struct span kernel_code;
    uint64_t code_start; /* of the innermost function, and its bytes; both spans are empty if the cubin lacks them */
    struct span code;
};

struct cubin_line {
    const char *file;
    const char *directory; /* NULL if `file` stands alone */
    int line;
};

/* 1 if a function of the cubin holds `pc`. `bytes` may be anything. *work counts down by the bytes looked through, and ends
 * the search at 0: a damaged dump may name the same cubin a million times. */
int cubin_find(struct span bytes, uint64_t pc, uint64_t *work, struct cubin_function *function);

/* 1 if the cubin's line table names the line of `pc`. */
int cubin_find_line(struct span bytes, uint64_t pc, struct cubin_line *line);

#endif
