/*
 * An error message in memory of the caller, for functions that must not keep it in a global.
 */
#ifndef CUFENCE_BASE_PROBLEM_H
#define CUFENCE_BASE_PROBLEM_H

#include <cufence.h>

struct problem {
    char text[256]; /* names the value, the limit and the way out; set where a function does not return CUFENCE_OK */
};

/* Sets the formatted message and returns `status`. */
cufence_status problem_set(struct problem *problem, cufence_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
