/*
 * The environment that `cufence run` gives a program: a copy of the caller's with cufence's settings merged in. Pure, except
 * for messages to a FILE.
 *
 * Functions that allocate return CUFENCE_ERROR_OUT_OF_MEMORY if the host has no memory.
 */
#ifndef CUFENCE_CLI_ENVIRONMENT_H
#define CUFENCE_CLI_ENVIRONMENT_H

#include "cli/alloc_conf.h"

#include <cufence.h>
#include <stddef.h>
#include <stdio.h>

struct environment {
    char **entries; /* "NAME=VALUE", ending with NULL, as execve() takes it */
    size_t count;
    FILE *words; /* gets a line for each change; NULL: silent. Not owned */
};

/* Copies `entries`. The caller calls environment_free(), also after an error. */
cufence_status environment_copy(struct environment *environment, char *const *entries, FILE *words);
void environment_free(struct environment *environment);

/* Returns the value of a variable, NULL if it is not set. Valid until the variable is changed. */
const char *environment_get(const struct environment *environment, const char *name);

/* Sets a variable, removing duplicates of its name. */
cufence_status environment_set(struct environment *environment, const char *name, const char *value);

/* Removes a variable. Returns whether it was set. */
int environment_unset(struct environment *environment, const char *name);

/* Puts `path` in front of LD_PRELOAD, and drops what is there under the same file name (an outer `cufence run`).
 * Errors: INVALID_ARGUMENT (a blank or a colon in `path`, which LD_PRELOAD cannot hold). */
cufence_status environment_preload(struct environment *environment, const char *path);

/* Puts `folder` in front of PYTHONPATH, unless it is already there. */
cufence_status environment_python(struct environment *environment, const char *folder);

/*
 * PyTorch: environment_read_pytorch() reads its two variables (alloc_conf_rewrite_both()); environment_pytorch() sets them to
 * backend:cudaMallocAsync with the user's other settings, and unsets PYTORCH_NO_CUDA_MEMORY_CACHING, which would bypass that
 * back end.
 */
cufence_status environment_read_pytorch(const struct environment *environment, struct alloc_conf confs[ALLOC_CONFS]);
cufence_status environment_pytorch(struct environment *environment, const struct alloc_conf confs[ALLOC_CONFS]);

/* What makes a framework ask the driver for its buffers. */
struct framework {
    const char *name, *package, *variable, *value;
    const char *gain, *loss; /* what the framework does with that value, and with others */
    const char *allocator;   /* only if the previous row's variable has this value; NULL: always */
};
enum { FRAMEWORKS = 3 };
extern const struct framework frameworks[FRAMEWORKS];

/* Sets their variables, unless the user has chosen other values. */
cufence_status environment_frameworks(struct environment *environment);

/* Unsets the variables that override the core-dump settings which cufence makes in the driver. */
void environment_coredumps(struct environment *environment);

#endif
