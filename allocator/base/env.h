/*
 * The environment: no other file of these rooms calls getenv(). A program that runs with rights that its caller lacks (set-uid,
 * set-gid, file capabilities) must not obey the caller: there, no variable is set for cufence. Thread safety: as for getenv().
 */
#pragma once

#include <stdlib.h>
#include <sys/auxv.h>

/* Returns the variable's value, NULL if it is not set, or not to be trusted. */
static inline const char *env_get(const char *name)
{
    return getauxval(AT_SECURE) ? NULL : getenv(name);
}
