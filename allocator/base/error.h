/*
 * The one way an error says what it means: a status, and a sentence kept for the calling thread.
 *
 * Thread safety: the sentence is thread-local.
 */
#ifndef CUFENCE_BASE_ERROR_H
#define CUFENCE_BASE_ERROR_H

#include <cufence.h>

/* Keeps the formatted sentence for cufence_error_detail() and returns `status`, so that a caller can write
 * `return error_set(CUFENCE_ERROR_SYSTEM, "cannot ...")`. The sentence names the value, the limit and the way out. */
cufence_status error_set(cufence_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The calling thread's sentence, "" if it has none. Valid until its next error_set(). */
const char *error_detail(void);

#endif
