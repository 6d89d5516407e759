/*
 * The files of save_values=. Thread safety: the visits' thread alone.
 */
#ifndef CUFENCE_VALUES_SAVED_H
#define CUFENCE_VALUES_SAVED_H

#include <stddef.h>
#include <stdint.h>

/* Write a file, or say why not; then nothing more is saved (saved_has_failed()). Return 0 on failure. */
int saved_put_array(const char *path, const void *bytes, uint64_t size); /* as .npy */
int saved_put(const char *path, const void *bytes, size_t size);         /* NULL: out of host memory */

void saved_fail(const char *path);
int saved_has_failed(void);

#endif
