/*
 * The code of the modules and libraries that the program has loaded, for those who want to read it: the cubins that a kernel
 * may have been loaded from.
 *
 * Costs nothing until images_open(). From then on, what is loaded is copied, at most IMAGES_MOST bytes in all, unless the
 * program promises to keep it as long as the library is loaded (as the CUDA runtime does). Compressed cubins and PTX are not
 * read. Thread safety: any thread, images_open() at the start.
 */
#ifndef CUFENCE_LAUNCH_IMAGES_H
#define CUFENCE_LAUNCH_IMAGES_H

#include "base/reader.h"

#include <cuda.h>

#define IMAGES_MOST (UINT64_C(512) << 20)

extern int images_are_kept; /* constant after the start */
void images_open(void);

/* The driver has loaded a module or library (`handle`). is_preserved: the bytes stay as they are until it is unloaded. */
void images_loaded(const void *handle, const void *image, int is_preserved);
void images_loaded_file(const void *handle, const char *path);
/* It is about to be unloaded. */
void images_gone(const void *handle);

/* Returns the module or library of a kernel's handle, NULL if the driver does not tell. */
const void *images_module_of(CUfunction function);

/* Calls `look` with each cubin of the module, for the devices of all architectures. Returns 1 if the code is nowhere else. The
 * spans are valid during the call, which holds a lock. */
int images_look(const void *handle, void (*look)(struct span cubin, void *user), void *user);

#endif
