/*
 * The files of save_values=. Thread safety: the visits' thread alone.
 */
#ifndef CUFENCE_LENS_SAVED_H
#define CUFENCE_LENS_SAVED_H

#include "analysis/values/value.h"

#include <stddef.h>
#include <stdint.h>

/* Write a file, or say why not; then nothing more is saved (saved_has_failed()). Return 0 on failure.
 * saved_put_array(): as .npy. type: of its elements; VALUE_TYPES: bytes. saved_put(): NULL means out of host memory. */
int saved_put_array(const char *path, enum value_type type, const void *bytes, uint64_t size);
int saved_put(const char *path, const void *bytes, size_t size);

void saved_fail(const char *path);
int saved_has_failed(void);

#endif
