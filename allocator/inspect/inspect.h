/*
 * Opens what the options ask for of launches: values, nan, save_values. Included by api/ and by these users
 * of visits; who calls the inspector later knows launch/inspect_table.h.
 *
 * Thread safety: all at the start, before any context.
 */
#pragma once

#include "base/image.h"
#include "base/options.h"

#include <cufence.h>

/* Registers the inspector. keeps_code: for inspect_code(). Errors: OPTION, OVERFLOW: the message names the option.
 * OUT_OF_MEMORY (the host's). */
cufence_status inspect_open(const struct options *options, int keeps_code);

/* Returns a copy of the cubin that has the kernel, for the caller to free; empty if the code of modules is not kept, or if
 * several have one of the name. Any thread. */
struct span inspect_code(const char *symbol, int device);

/* Registers the inspector for the visits' users that there are. Part of inspect_open(). */
void inspect_register(void);

/* ---- the users of visits, each of which begins if its option is set. Part of inspect_open() ---- */

/* values=FILTER: shows the arguments of launches, and figures of what they point to, before and after each. Errors: OPTION,
 * OVERFLOW (values). */
cufence_status show_open(const struct options *options);

/* nan=report|stop: finds the launches that make a NaN of inputs that have none. It looks at everything that a launch was given
 * before it, and after it at what the launch may write: not pointers to const, nor what the kernel's code only reads.
 * Only memory that somebody was seen to write is an input. Where only one launch in N is looked at, writes of those in between
 * are not seen, so all memory counts as written. Errors: OUT_OF_MEMORY (the host's). */
cufence_status nan_open(const struct options *options);

/* What it wants to be called before the host writes at an address, from any thread; NULL: nothing. */
typedef void nan_host_writes(uint64_t address);
nan_host_writes *nan_wants_host_writes(void);

/* save_values=FILTER=FOLDER: keeps what went into the launches that the filter chooses, and what came out: a folder for each,
 * with the buffers before and after as .npy files, and the launch in launch.json (docs/values.md); the first of each kernel as
 * bundles for `cufence replay`, too (saves/bundles.h). The buffers are copied on the launch's own stream, and written on the
 * visits' thread. Graph launches are left out. Errors: OPTION, OVERFLOW (the folder's name). */
cufence_status saves_open(const struct options *options);
