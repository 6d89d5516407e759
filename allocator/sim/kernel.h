/*
 * Registered kernels as driver functions. As in the driver, a launch also takes a CUkernel: it belongs to no context and runs
 * in that of the stream. A CUfunction belongs to the context that it was looked up in.
 *
 * Ownership: a function is never freed, and only its attributes change. Thread safety: any thread.
 */
#pragma once

#include "call.h"

#include <elf.h>

struct CUfunc_st {
    struct CUfunc_st *next;
    cusim_kernel kernel;      /* owns its strings and array */
    size_t *argument_offsets; /* in the parameter buffer, each aligned to its size, as nvcc lays them out */
    size_t parameter_bytes;
    uint64_t entry;          /* address of its code, as in core dumps */
    const struct code *code; /* of the image that it was loaded from; NULL: not from one with code. Never freed */
    atomic_int attributes[CU_FUNC_ATTRIBUTE_MAX];
    const void *_Atomic owner;     /* the module of a CUfunction, or the library of a CUkernel, that it was last looked up in */
    const struct CUfunc_st *of;    /* the kernel that it is with other code, or in a context; NULL: as registered */
    unsigned long long context_id; /* of a CUfunction; 0: it is a CUkernel */
};

/* Whether this is a valid CUfunction or CUkernel. */
int kernel_is_valid(const void *function);

/* Takes the kernels of the program, and opens the library in CUSIM_KERNELS, if that is set. Errors: INVALID_VALUE, with a
 * message on stderr. */
CUresult kernel_load_library(void);

/* What cusim_declare_variable() has declared. */
struct kernel_variable {
    const char *name;    /* NULL: none */
    CUdeviceptr address; /* 0 before the first module is loaded */
};
extern struct kernel_variable kernel_variable; /* under the lock of kernel.c until it has an address */

/* builtin.c */
extern const cusim_kernel builtin_kernels[];
extern const size_t builtin_kernel_count;

/* own.cpp: cufence's kernels. The first thread of a block does all of its work. */
void own_figures(const cusim_thread *thread, void *const *arguments);
void own_nans(const cusim_thread *thread, void *const *arguments);
void own_reach(const cusim_thread *thread, void *const *arguments);
void own_pattern(const cusim_thread *thread, void *const *arguments);
void own_pattern_fill(const cusim_thread *thread, void *const *arguments);

/*
 * sm90.c: machine code of simulated kernels: the ELF file for sm_90 that a core dump contains, with one function, one
 * instruction of which is the faulting access; and such files read again, as a program loads them, changed or not. As nvcc ends
 * a kernel, EXIT is followed by a branch to itself and by NOPs.
 */
#define CUBIN_ADDRESS_REGISTER 2 /* R2:R3 */
#define CUBIN_REGISTERS 32

/* What the simulation has to know of a function's code. Offsets are from the function's entry. */
struct code {
    struct code *next;
    unsigned image; /* that it was read from; these three are unused in code that cubin_create() makes up */
    char *name;
    uint64_t size;
    uint64_t fault;       /* offset of the access */
    uint64_t origin;      /* the same in the compiler's code, if it was moved and a branch leads to it */
    uint64_t resume;      /* where a faulting lane is by then: a little later, as on hardware */
    int is_fenced;        /* a memory barrier before each EXIT: a warp whose access faults is still there */
    unsigned char *bytes; /* NULL for code that no program has loaded: cubin_create() makes it up */
};

/* Returns the function's code, as loaded or as made up. */
struct code cubin_code(const struct CUfunc_st *function);

/* Width of the access in bytes: 1, 2, 4, 8 or 16. */
uint32_t cubin_access_bytes(const struct CUfunc_st *function);

/* Returns a malloc'ed file. Pure. */
unsigned char *cubin_create(const struct CUfunc_st *function, int is_write, size_t *size);

/* module_image.c: copies the kernels of an ELF file for CUDA, and gives the image a number from 1; what else the bytes may be
 * is not looked at, and *image is 0: such a module contains every kernel. Like the driver it has to trust the file's own
 * offsets. Errors: INVALID_IMAGE. */
CUresult image_read(unsigned *image, const void *bytes);
/* Returns the code of a kernel, which is never freed, or NULL. */
const struct code *image_find(unsigned image, const char *name);

/* Writes ELF64 little-endian files with CUDA's machine number: sections in memory, then one buffer. Thread safety: none. */
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
