/*
 * The header of NumPy's files of one array: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 * Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_NPY_H
#define CUFENCE_ANALYSIS_SNAPSHOT_NPY_H

#include "analysis/values/value.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define NPY_HEADER 128 /* bytes of the header that npy_write() makes */
#define NPY_MOST 65536 /* bytes that npy_read() may need */

/* Whether NumPy has the type: not bfloat16 and float8, which are written as unsigned integers. */
int npy_has(enum value_type type);

/* Makes the header of an array of `count` elements. */
void npy_write(enum value_type type, uint64_t count, char header[NPY_HEADER]);

/* Reads the header at the start of a file, of which there are `size` bytes, and says where the elements begin, and how many
 * bytes they are. Errors: CORRUPT, UNSUPPORTED (elements that are not plain numbers). */
cufence_status npy_read(const void *start, size_t size, uint64_t *offset, uint64_t *bytes, struct problem *problem);

#endif
