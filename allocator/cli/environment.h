/*
 * The environment that `cufence run` gives a program: a copy of its own with cufence's settings merged in. Pure, but for words
 * to a FILE.
 *
 * Every function that may need memory returns CUFENCE_ERROR_OUT_OF_MEMORY (the host's) if there is none.
 */
#ifndef CUFENCE_CLI_ENVIRONMENT_H
#define CUFENCE_CLI_ENVIRONMENT_H

#include "cli/alloc_conf.h"

#include <cufence.h>
#include <stddef.h>
#include <stdio.h>

struct environment {
    char **entries; /* "NAME=VALUE", a NULL behind the last: as execve() wants it */
    size_t count;
    FILE *words; /* gets a line for each thing that is done; NULL for silence. Not owned */
};

/* Copies `entries`. The caller gives it to environment_free(), also after an error. */
cufence_status environment_copy(struct environment *environment, char *const *entries, FILE *words);
void environment_free(struct environment *environment);

/* The value of a variable, NULL if it is not set. Valid until the variable is changed. */
const char *environment_get(const struct environment *environment, const char *name);

/* Sets a variable, and removes further ones of that name. */
cufence_status environment_set(struct environment *environment, const char *name, const char *value);

/* Removes a variable. Returns whether it was set. */
int environment_unset(struct environment *environment, const char *name);

/* Puts `path` in front of LD_PRELOAD, and drops what is there under the same file name (an outer `cufence run`).
 * Errors: INVALID_ARGUMENT (a blank or a colon in `path`, which LD_PRELOAD cannot hold). */
cufence_status environment_preload(struct environment *environment, const char *path);

/* Puts `folder` in front of PYTHONPATH, unless it stands there. */
cufence_status environment_python(struct environment *environment, const char *folder);

/*
 * PyTorch: reads its two variables, see alloc_conf_rewrite_both(), and sets them, to backend:cudaMallocAsync with the user's
 * other settings. The second function also unsets PYTORCH_NO_CUDA_MEMORY_CACHING, which would go round that back end.
 */
cufence_status environment_read_pytorch(const struct environment *environment, struct alloc_conf confs[ALLOC_CONFS]);
cufence_status environment_pytorch(struct environment *environment, const struct alloc_conf confs[ALLOC_CONFS]);

/* JAX and TensorFlow: sets their allocators, unless the user has chosen one. */
cufence_status environment_frameworks(struct environment *environment);

/* Unsets the variables that the driver prefers to what cufence asks for when it arms core dumps. */
void environment_coredumps(struct environment *environment);

#endif
