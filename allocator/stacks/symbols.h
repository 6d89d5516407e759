/*
 * Finds names of functions that are missing in a module's dynamic symbol table, in the symbol table of its file.
 *
 * Thread safety: any thread. The file is mapped during the search.
 */
#ifndef CUFENCE_STACKS_SYMBOLS_H
#define CUFENCE_STACKS_SYMBOLS_H

#include "module.h"

#include <stddef.h>

/* Writes the symbol name (mangled) of the function that contains the address. Writes nothing if the file can't be read, is not
 * the one that was loaded, or has no such function. */
void symbols_name(const struct module *module, uint64_t address, char *name, size_t size);

#endif
