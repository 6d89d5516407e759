/*
 * What went wrong, in a sentence, for functions that have no global to keep it in: the caller brings the room.
 */
#ifndef CUFENCE_BASE_PROBLEM_H
#define CUFENCE_BASE_PROBLEM_H

#include <cufence.h>

struct problem {
    char text[256]; /* names the value, the limit and the way out; set where a function does not return CUFENCE_OK */
};

/* Returns `status`. */
cufence_status problem_set(struct problem *problem, cufence_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
