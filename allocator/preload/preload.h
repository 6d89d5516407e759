/*
 * The preload: hooks in the place of driver functions, for programs that know nothing of cufence. The library that the loader
 * puts into a program (interpose.c, libcufence_preload.so) opens libcufence.so at the first interest in the driver and asks
 * here.
 *
 * Thread safety: any thread, at any time.
 */
#ifndef CUFENCE_PRELOAD_PRELOAD_H
#define CUFENCE_PRELOAD_PRELOAD_H

#include "base/options.h"

#define CUFENCE_PRELOAD_EXPORT __attribute__((visibility("default")))

/* The function to use in place of the driver's `symbol`; NULL where it is not hooked, or this driver has none. Opens the
 * driver's library, but does not call it. */
CUFENCE_PRELOAD_EXPORT void *cufence_preload_hook(const char *symbol);

/* Whether libcufence_preload.so has asked. */
int preload_is_there(void);

/* What cufence was started with; it must stay. Before the first hook that allocates is called. */
void preload_configure(const struct options *options);

/* In a forked child, which has no CUDA: every call goes to the driver from now on. */
void preload_stop(void);

#endif
