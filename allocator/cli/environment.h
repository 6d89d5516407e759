/*
 * The environment that `cufence run` gives a program: that of this process, which becomes the program. Not thread-safe.
 *
 * Functions that return a status return CUFENCE_ERROR_OUT_OF_MEMORY if the host has no memory.
 */
#pragma once

#include "cli/alloc_conf.h"

#include <cufence.h>

/* Sets a variable, removing duplicates of its name. */
cufence_status environment_set(const char *name, const char *value);

/* Puts `path` in front of LD_PRELOAD, and drops what is there under the same file name (an outer `cufence run`).
 * Errors: INVALID_ARGUMENT (a blank or a colon in `path`, which LD_PRELOAD cannot hold). */
cufence_status environment_preload(const char *path);

/* Puts `folder` in front of PYTHONPATH, unless it is already there. */
cufence_status environment_python(const char *folder);

/*
 * What makes frameworks ask the driver for their buffers. PyTorch: sets its two variables to backend:cudaMallocAsync with the
 * user's other settings, and unsets PYTORCH_NO_CUDA_MEMORY_CACHING, which would bypass that back end. JAX and TensorFlow: sets
 * their variables, unless the user has chosen other values.
 */
cufence_status environment_frameworks(const struct alloc_conf confs[ALLOC_CONFS]);

/* Every process adds its reports to that file, and to those of commands around this one (fault/delivery.c). */
cufence_status environment_collect(const char *file);

/* Takes the tally and the files for reports of a command around this one from the processes that have started it, if its own
 * environment does not have them: a finding in here is one of the command there. */
void environment_adopt(void);

/* Prints the variables that these have set. */
void environment_show(void);

/* Names the variables CUFENCE_* that nothing reads on stderr, behind the sub-command's name: CUFENCE_UAF=strict where
 * CUFENCE_OPTIONS=uaf=strict was meant, and CUFENCE_DRIVER=sim where a program is run. Once in a process, because `cufence
 * hunt` starts several runs from one. */
void environment_tell(const char *command);
