/*
 * The cubins of a fat binary, as nvcc makes it: one for each architecture, and PTX. Source of the layout: files of nvcc 13.0,
 * and fatbinary_section.h of the toolkit for the wrapper.
 *
 * Pure. Nothing is allocated; cubins are part of the file. On damaged data the rest is left out.
 */
#ifndef CUFENCE_ANALYSIS_LINES_FATBIN_H
#define CUFENCE_ANALYSIS_LINES_FATBIN_H

#include "base/reader.h"

#define FATBIN_MAGIC 0xba55ed50u
#define FATBIN_WRAPPER 0x466243b1u /* what a program registers: magic, version, pointer to the fat binary, another pointer */

/* Returns the bytes of the fat binary that begins there; 0 if none does. Reads 16 bytes. */
uint64_t fatbin_size(const void *start);

/* Returns the next cubin in a fat binary, beginning with *at = 0; empty after the last one. *has_others is set if there was
 * anything between them that may have a kernel's code, and cannot be read: a compressed cubin. */
struct span fatbin_next(struct span file, uint64_t *at, int *has_others);

#endif
