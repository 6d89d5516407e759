/*
 * Takes the image of a kernel's module out of a core dump, so that it can be loaded and launched again.
 *
 * Ownership: *image is malloc'ed, for the caller to free. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_IMAGE_H
#define CUFENCE_ANALYSIS_DUMP_IMAGE_H

#include "coredump.h"

/*
 * Copies the image of the loaded module that has the kernel `symbol`. If several have one, `pc` says which: an address in the
 * module's code, such as that of the fault or of the kernel's entry; 0 if unknown.
 * The result is what the program loaded, if the dump has it. Otherwise, it is made from the relocated image: sections and
 * symbols lose their addresses, and the code keeps its bytes. A driver relocates it again when it loads it.
 * *image and *size are set only with CUFENCE_OK. Errors: NOT_FOUND, CORRUPT, UNSUPPORTED (the relocations cannot be applied
 * again), OUT_OF_MEMORY.
 */
cufence_status image_of_kernel(const struct coredump *dump, const char *symbol, uint64_t pc, uint8_t **image, size_t *size,
                               struct problem *problem);

/* Returns the relocated image of that module, which has the addresses of its code and of its variables (variables.h); empty if
 * there is none, or if several may be it. */
struct span image_relocated(const struct coredump *dump, const char *symbol, uint64_t pc);

#endif
