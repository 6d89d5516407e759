/*
 * The files of save_values=: a launch's buffers as .npy, and the README.txt beside them. Elements have the type that the
 * kernel's signature or values_type= says; where neither does, or two pointers into a buffer disagree, the files are bytes.
 * Thread safety: the visits' thread alone.
 */
#ifndef CUFENCE_LENS_SAVED_H
#define CUFENCE_LENS_SAVED_H

#include "analysis/values/value.h"
#include "lens/visits/visits.h"

#include <stdio.h>

/* Write a file, or say why not; then nothing more is saved (saved_has_failed()). Return 0 on failure.
 * saved_put_array(): as .npy. type: of its elements; VALUE_TYPES: bytes. saved_put(): NULL means out of host memory. */
int saved_put_array(const char *path, enum value_type type, const void *bytes, uint64_t size);
int saved_put(const char *path, const void *bytes, size_t size);

void saved_fail(const char *path);
int saved_has_failed(void);

/* Returns the type of a buffer's elements, VALUE_TYPES if it is unknown. index: of a pointer into it, in visit->reached. */
enum value_type saved_type(const struct visit *visit, size_t index);

/* Write README.txt: the first lines, and what the files "INDEX.before.npy" and "INDEX.after.npy" hold. */
void saved_begin(FILE *file, const struct visit *visit);
void saved_describe(FILE *file, const struct visit *visit, size_t index, enum value_type type, int has_changed);

#endif
