/*
 * Names of functions that a module's dynamic symbol table does not have, from the symbol table of its file.
 *
 * Thread safety: from any thread. Maps the file while it looks.
 */
#ifndef CUFENCE_STACKS_SYMBOLS_H
#define CUFENCE_STACKS_SYMBOLS_H

#include "module.h"

#include <stddef.h>

/* Writes the name, as it is in the table, of the function that the address lies in. Writes nothing where the file cannot be
 * read any more, is not the one that was loaded, or has no such function. */
void symbols_name(const struct module *module, uint64_t address, char *name, size_t size);

#endif
