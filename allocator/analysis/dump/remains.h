/*
 * Finds tables in a truncated core dump that has lost its section headers. The driver writes the headers last, so a truncated
 * dump still has its first tables, but nothing says where they are. Some can be recognised reliably: a cubin is an ELF file;
 * the SM table numbers its rows from 0 up to the SM count in the device's row; a launch's row contains the start address of a
 * kernel in one of the cubins. Warps and registers can't be recognised, nor which of several devices a table belongs to.
 *
 * Source of the layout: dumps of an H100, driver 580.159. With another layout, fewer tables are found.
 * Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_REMAINS_H
#define CUFENCE_ANALYSIS_DUMP_REMAINS_H

#include "base/image.h"

/* Section headers for the tables that were found, linked like the lost ones; header 0 is empty, as in a file. */
struct remains {
    Elf64_Shdr *headers; /* malloc'ed, for the caller to free; NULL if nothing was found */
    size_t count;
};

/* Returns 0 if out of host memory. */
int remains_find(struct span file, struct remains *remains);

#endif
