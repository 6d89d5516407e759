/*
 * Hooks in place of driver functions, for programs that know nothing about cufence. The library that the loader puts into a
 * program (interpose.c, libcufence_preload.so) opens libcufence.so at the first use of the driver and calls this function.
 *
 * Thread safety: any thread, at any time.
 */
#ifndef CUFENCE_PRELOAD_PRELOAD_H
#define CUFENCE_PRELOAD_PRELOAD_H

#define CUFENCE_PRELOAD_EXPORT __attribute__((visibility("default")))

/* Returns the function to use in place of the driver's `symbol`; NULL if it is not hooked or this driver lacks it. Opens the
 * driver library, but calls nothing in it. */
CUFENCE_PRELOAD_EXPORT void *cufence_preload_hook(const char *symbol);

/* Call before the process ends without exit handlers: waits for the report of a fault that the program has been told of. Takes
 * no lock, so that it may be called in a signal handler. */
CUFENCE_PRELOAD_EXPORT void cufence_preload_before_exit(void);

#endif
