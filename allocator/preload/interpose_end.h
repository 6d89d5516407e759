/*
 * The last word of a program that `cufence run` has become: its first process says whether anything was guarded.
 *
 * Part of libcufence_preload.so. Thread safety: any thread, also in an exit handler.
 */
#ifndef CUFENCE_PRELOAD_INTERPOSE_END_H
#define CUFENCE_PRELOAD_INTERPOSE_END_H

#include <sys/stat.h>

/* Says it once, in the process that the tally names (base/tally.h). standard_error: what descriptor 2 was before main(). */
void interpose_end(const struct stat *standard_error);

#endif
