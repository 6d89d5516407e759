/*
 * Finds files of an installation from where one of them lies. Thread safety: any thread.
 */
#ifndef CUFENCE_BASE_INSTALLATION_H
#define CUFENCE_BASE_INSTALLATION_H

#include <limits.h>
#include <stddef.h>

/* Looks for `name` in folders relative to that of `file`; each ends with a slash or is "". `path` gets the real path of the
 * first that exists. Returns 0 if there is none. */
int installation_find(const char *file, const char *const *folders, size_t count, const char *name, char path[PATH_MAX]);

/* The same for a library of the installation that `file`, a program or a library, belongs to. */
int installation_library(const char *file, const char *name, char path[PATH_MAX]);

#endif
