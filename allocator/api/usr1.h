/*
 * live=usr1: a thread of our own prints what is allocated at each SIGUSR1. There is none without the option. Thread safety: the
 * thread that starts cufence, and the one that ends the process.
 */
#ifndef CUFENCE_API_USR1_H
#define CUFENCE_API_USR1_H

/* Starts the thread, and says on stderr if that fails. */
void usr1_start(void);

/* Returns when it prints no more. */
void usr1_stop(void);

#endif
