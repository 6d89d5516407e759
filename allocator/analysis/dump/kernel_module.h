/*
 * Takes the image of a kernel's module out of a core dump, so that it can be loaded and launched again.
 *
 * Ownership: *image is malloc'ed, for the caller to free. Pure; any thread.
 */
#pragma once

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

/* Returns the relocated image of that module, which has the addresses of its code and of its variables (below); empty if
 * there is none, or if several may be it. */
struct span image_relocated(const struct coredump *dump, const char *symbol, uint64_t pc);

/* ---- variables.c: the variables of a module (__device__, __constant__, __managed__), and which of them a kernel uses ---- */

#define VARIABLES_MOST 256

struct variable {
    const char *name; /* in the cubin */
    uint64_t size;
    uint64_t address; /* see variables_locate() */
    int is_used;      /* an instruction of the kernel names it */
};

/* Lists the variables of a cubin that has no addresses, those that the kernel `symbol` uses first, without strings of assert()
 * and printf(). Returns their number. A damaged cubin has less. */
size_t variables_of(struct span cubin, const char *symbol, struct variable out[VARIABLES_MOST]);

/* Fills in where the driver has put the variables, according to the relocated cubin; 0 where that does not say. Returns how
 * many are there. */
size_t variables_locate(struct span relocated, struct variable *variables, size_t count);

/* Returns whether a value has an address in the relocated cubin's own code or data, which is another one where it is loaded
 * again. */
int variables_lead_inside(struct span relocated, const uint8_t *value, size_t size);

/* In a copy of a relocated cubin, variables have the addresses that the driver has given them, but their sections have none.
 * Gives them offsets in their sections, so that it can be loaded again. */
void variables_settle(uint8_t *copy, size_t size);
