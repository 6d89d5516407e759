/*
 * Looks up the function, instruction and source line of a PC in a relocated cubin (ELF64, as loaded by the driver). A
 * function's symbol value is its load address; a function that the driver has not loaded (lazy loading) has value 0.
 *
 * Pure. Results point into the cubin. On damaged data, functions return 0 or leave fields empty.
 */
#pragma once

#include "base/image.h"

struct cubin_function {
    const char *symbol; /* of the kernel, or of the separately compiled function; as in the symbol table */
    int is_kernel;      /* the host can launch `symbol` */
    uint64_t start;     /* load address of `symbol`, and its bytes */
    struct span kernel_code;
    uint64_t code_start; /* of the innermost function, and its bytes; both spans are empty if the cubin lacks them */
    struct span code;
};

struct cubin_line {
    const char *file;      /* points into the sections */
    const char *directory; /* NULL if `file` has no directory */
    int line;
};

/* Returns 1 if a function of the cubin contains `pc`. `bytes` may be arbitrary. Decrements *work by the number of bytes
 * searched, and gives up at 0: a damaged dump may refer to the same cubin a million times. work: NULL for one that is searched
 * once. */
int cubin_find(struct span bytes, uint64_t pc, uint64_t *work, struct cubin_function *function);

/* Copies the symbol of the function named `symbol` into *found. Returns 1 if the cubin has one. `bytes` and *work are those of
 * cubin_find(); *work also counts the names. */
int cubin_find_named(struct span bytes, const char *symbol, uint64_t *work, Elf64_Sym *found);

/* Returns 1 if the cubin's line table has a line for `pc`. */
int cubin_find_line(struct span bytes, uint64_t pc, struct cubin_line *line);

/* Returns the compute capability a cubin was compiled for. e_flags has two layouts; since CUDA 13, the file says so. */
unsigned cubin_architecture(const Elf64_Ehdr *header);

/* A kernel of a cubin as the compiler has written it, where no function has an address yet. */
struct cubin_kernel {
    struct span code;       /* with its functions: all of its section */
    unsigned sm;            /* compute capability that it was compiled for, 90 for 9.0 */
    uint32_t parameters_at; /* offset of its parameters in constant bank 0; 0 if the cubin does not say */
    int calls_addresses;    /* what it calls is in registers: malloc() and printf(), or a pointer to a function */
};

/* Returns 1 if the cubin has a kernel of that name, and its code calls no function of another section. */
int cubin_find_kernel(struct span bytes, const char *symbol, struct cubin_kernel *kernel);
/* Returns 1 if there is a line for the instruction at `offset` of that code. */
int cubin_find_kernel_line(struct span bytes, const char *symbol, uint64_t offset, struct cubin_line *line);

/* ---- lines.c: looks up source lines in a cubin's .debug_line, versions 2 to 5. No allocations; the work is bounded by the
 * section's size. ---- */

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

/* Returns 1 and *place if a sequence covers the PC. Code inlined from the headers or libraries of the CUDA toolkit, Triton,
 * Warp and numba counts as its caller's line. */
int lines_find(const struct line_query *query, struct cubin_line *place);
