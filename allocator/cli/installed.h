/*
 * Where cufence's own files are, relative to the folder of the running program: in an installation, a build or a wheel.
 */
#ifndef CUFENCE_CLI_INSTALLED_H
#define CUFENCE_CLI_INSTALLED_H

#include <limits.h>

#define INSTALLED_PRELOAD "libcufence_preload.so"
/* Where the library is looked for, relative to the program's folder; for messages. */
#define INSTALLED_PLACES "the same folder, ../lib, ../lib64, ../lib/x86_64-linux-gnu, ../lib/aarch64-linux-gnu, ../cufence/lib"

/* Gets the path of the running program, resolved from /proc/self/exe so that its libraries can be found beside it. Returns 0
 * with errno if it is unknown. */
int installed_program(char path[PATH_MAX]);

/* Gets the real path of the preload library. Returns 0 with "" if it is in none of INSTALLED_PLACES. */
int installed_preload(const char *program, char path[PATH_MAX]);

/* Gets the folder of the Python package's sitecustomize.py, likewise. */
int installed_bootstrap(const char *program, char path[PATH_MAX]);

#endif
