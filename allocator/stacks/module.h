/*
 * The program and the libraries that the loader has mapped into this process.
 *
 * Thread safety: every function, from any thread; each holds the loader's lock while it looks.
 */
#pragma once

#include "cfi.h"

#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* The module that contains an address. Holds no pointers into the module, which may be unloaded at any time. */
struct module {
    uint64_t base;       /* load bias: added to addresses in the file */
    uint64_t code_start; /* start of the segment that contains the address; readable */
    uint64_t offset;     /* of the address within the file */
    char path[PATH_MAX];
    int is_program; /* path is then the name the program was started as, without the directory it was found in */
};

/* Returns 0 and leaves *out unchanged if the address is in no module's code. */
int module_of(uint64_t address, struct module *out);

/* Returns `size` bytes at `address`, as the module's file numbers addresses; NULL if they are not mapped readable. */
const void *module_bytes(const struct dl_phdr_info *module, uint64_t address, uint64_t size);

/* Calls `visit` for the module whose code contains the address; it can't be unloaded meanwhile. Returns what visit returns, 0
 * if there is no such module. */
typedef int module_visitor(const struct dl_phdr_info *module, uint64_t address, void *argument);
int module_visit(uint64_t address, module_visitor *visit, void *argument);

int module_is_cufence(const char *path);

/* Gets the call frame information of a module that is being visited. */
void module_tables(const struct dl_phdr_info *module, struct cfi_module *out);

/* symbols.c, for functions that are missing in the module's dynamic symbol table: writes the symbol name (mangled) of the
 * function that contains the address. Writes nothing if the file can't be read, is not the one that was loaded, or has no such
 * function. */
void symbols_name(const struct module *module, uint64_t address, char *name, size_t size);
