/*
 * The relocated machine code of a simulated kernel: an ELF file for sm_90 with one function, one instruction of which is the
 * faulting access.
 */
#ifndef CUFENCE_SIM_CUBIN_H
#define CUFENCE_SIM_CUBIN_H

#include "kernel.h"

#define CUBIN_FAULT_OFFSET 0x40  /* offset of the access from the function's entry */
#define CUBIN_RESUME_OFFSET 0x60 /* where a faulting lane is by then: a little later, as on hardware */
#define CUBIN_CODE_BYTES 0x100
#define CUBIN_ADDRESS_REGISTER 2 /* R2:R3 */
#define CUBIN_REGISTERS 32

/* Width of the access in bytes: 1, 2, 4, 8 or 16. */
uint32_t cubin_access_bytes(const struct CUfunc_st *function);

/* Returns a malloc'ed file, or NULL if out of memory. Pure. */
unsigned char *cubin_create(const struct CUfunc_st *function, int is_write, size_t *size);

/* lines.c: appends a DWARF line program to `out` that maps the access to the kernel's file and line. */
struct buffer;
void lines_append(struct buffer *out, const struct CUfunc_st *function);

#endif
