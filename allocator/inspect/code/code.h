/*
 * The code of the program's kernels, as the driver was given it: for a launch that is to be done again elsewhere
 * (inspect/saves/bundles.h). A fault needs none of this, because a core dump has the code.
 *
 * Modules and libraries are noted from code_keep() on. Constant bytes of a program or library that is loaded are copied when
 * they are asked for; others at once, because the program may free them, up to CODE_MOST in all.
 *
 * Thread safety: code_keep() at the start; the others on any thread. Ownership: code_find() gives a reference.
 */
#pragma once

#include "base/reader.h"

#include <cuda.h>

#include <stddef.h>
#include <stdint.h>

#define CODE_MOST (UINT64_C(1) << 30)

extern int code_is_kept; /* constant after the start: nobody calls the others without it */
void code_keep(void);

/* Whatever the driver takes: a cubin, a fat binary, or PTX, which keeps its NUL. */
struct code {
    const uint8_t *bytes;
    uint64_t size;
};

/* A module or library was loaded from these bytes, or from this file. */
void code_loaded(const void *handle, int is_library, const void *image);
void code_loaded_file(const void *handle, int is_library, const char *path);

/* Call before it is unloaded. */
void code_unloaded(const void *handle);

/* Returns the code that has the kernel, or NULL with the reason in *why, which is static. `kernel`: or a CUkernel cast to it.
 * Its context is current. May ask the driver about every module that there is. */
const struct code *code_find(CUfunction kernel, const char *name, const char **why);
const struct code *code_hold(const struct code *code); /* another reference */
void code_give_back(const struct code *code);          /* NULL is allowed */

/* Returns the module or library of a kernel's handle, NULL if the driver does not tell. */
const void *code_module_of(CUfunction function);

/* Calls `look` with the cubins for the architecture of all modules and libraries that have a kernel of that name. The spans are
 * valid during the call, which holds a lock. A context of the device is current. */
void code_look_named(const char *name, uint32_t sm, void (*look)(struct span cubin, void *user), void *user);

/* The number of bytes of an image that the driver has accepted; 0 if its form is unknown. */
uint64_t code_size(const void *image);
