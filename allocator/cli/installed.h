/*
 * Where cufence's own files lie, as an installation, a build and a wheel have them: seen from the folder of the running
 * program.
 */
#ifndef CUFENCE_CLI_INSTALLED_H
#define CUFENCE_CLI_INSTALLED_H

#include <limits.h>

#define INSTALLED_PRELOAD "libcufence_preload.so"
/* For messages: its places as seen from the program's folder. */
#define INSTALLED_PLACES "the same folder, ../lib, ../lib64, ../lib/x86_64-linux-gnu, ../cufence/lib"

/* The running program by its own path: its name /proc/self/exe would not tell where its libraries are. Returns 0 with errno
 * where it is not known. */
int installed_program(char path[PATH_MAX]);

/* The real path of the preload library. Returns 0 with "" if it lies in none of INSTALLED_PLACES. */
int installed_preload(const char *program, char path[PATH_MAX]);

/* The folder of the Python package's sitecustomize.py, likewise. */
int installed_bootstrap(const char *program, char path[PATH_MAX]);

#endif
