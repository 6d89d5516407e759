/*
 * The program and the libraries that the loader has mapped into this process.
 *
 * Thread safety: every function, from any thread; each holds the loader's lock while it looks.
 */
#ifndef CUFENCE_STACKS_MODULE_H
#define CUFENCE_STACKS_MODULE_H

#include <limits.h>
#include <link.h>
#include <stdint.h>

/* One that has code at an address. Nothing in it points into the module, which may go at any time. */
struct module {
    uint64_t base;       /* added to the addresses that its file gives */
    uint64_t code_start; /* of the segment that the address lies in; it is readable */
    uint64_t offset;     /* of the address in the file */
    char path[PATH_MAX];
    int is_program; /* the path is then what the program was started as, wherever it was looked for */
};

/* Returns 0, and leaves *out as it is, if the address lies in no module's code. */
int module_of(uint64_t address, struct module *out);

/* `size` bytes of a module's file at `address` as it gives addresses; NULL if they are not mapped to be read. */
const void *module_bytes(const struct dl_phdr_info *module, uint64_t address, uint64_t size);

/* Calls `visit` while the module that has code at the address cannot go. Returns what that does, 0 without such a module. */
int module_visit(uint64_t address, int (*visit)(const struct dl_phdr_info *module, void *argument), void *argument);

#endif
