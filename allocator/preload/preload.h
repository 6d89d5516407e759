/*
 * The preload: hooks in the place of driver functions, for programs that know nothing of cufence. The library that the loader
 * puts into a program (interpose.c, libcufence_preload.so) opens libcufence.so at the first interest in the driver and asks
 * here.
 *
 * Thread safety: any thread, at any time.
 */
#ifndef CUFENCE_PRELOAD_PRELOAD_H
#define CUFENCE_PRELOAD_PRELOAD_H

#define CUFENCE_PRELOAD_EXPORT __attribute__((visibility("default")))

/* The function to use in place of the driver's `symbol`; NULL where it is not hooked, or this driver has none. Opens the
 * driver's library, but does not call it. */
CUFENCE_PRELOAD_EXPORT void *cufence_preload_hook(const char *symbol);

#endif
