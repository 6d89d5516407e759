/*
 * The .npy files of a launch's buffers, and the README.txt beside them. Elements have the type that the kernel's signature or
 * values_type= says; where neither does, or two pointers into a buffer disagree, the files are bytes.
 * Thread safety: any thread; the caller owns the folder.
 */
#ifndef CUFENCE_LENS_ARRAYS_H
#define CUFENCE_LENS_ARRAYS_H

#include "analysis/values/value.h"
#include "lens/visits/visits.h"

#include <stdio.h>

/* Returns the type of a buffer's elements, VALUE_TYPES if it is unknown. index: of a pointer into it, in visit->reached. */
enum value_type arrays_type(const struct visit *visit, size_t index);

/* Write README.txt: the first lines, and what the files "INDEX.before.npy" and "INDEX.after.npy" hold. */
void arrays_begin(FILE *file, const struct visit *visit);
void arrays_describe(FILE *file, const struct visit *visit, size_t index, enum value_type type, int has_changed);

#endif
