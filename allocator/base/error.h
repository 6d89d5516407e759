/*
 * Error reporting: a status, and a message that explains it.
 *
 * Thread safety: the message is thread-local.
 */
#pragma once

#include <cufence.h>

/* Stores the formatted message for cufence_error_detail() and returns `status`, so that a caller can write `return
 * error_set(CUFENCE_ERROR_SYSTEM, "cannot ...")`. The message names the value, the limit and the way out. */
cufence_status error_set(cufence_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the calling thread's message, "" if there is none. Valid until the thread's next error_set(). */
const char *error_detail(void);

/* problem.c: a message in memory of the caller, for functions that must not keep it in a global. */
struct problem {
    char text[256]; /* names the value, the limit and the way out; set where a function does not return CUFENCE_OK */
};

/* Sets the formatted message and returns `status`. */
cufence_status problem_set(struct problem *problem, cufence_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
