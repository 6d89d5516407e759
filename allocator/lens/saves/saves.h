/*
 * save_values=FILTER=FOLDER: keeps what went into the launches that the filter chooses, and what came out: a folder for each,
 * with the buffers before and after as .npy files of bytes, and the launch in launch.json (docs/diff.md); the first of each
 * kernel as bundles for `cufence replay`, too (bundles.h). A user of visits: the buffers are copied on the launch's own stream,
 * and written on the visits' thread. Graph launches are left out.
 *
 * Thread safety: saves_open() at the start, before the first launch.
 */
#ifndef CUFENCE_LENS_SAVES_H
#define CUFENCE_LENS_SAVES_H

#include "base/options.h"

/* Does nothing without the option. Errors: OPTION, OVERFLOW (the folder's name). */
cufence_status saves_open(const struct options *options);

#endif
