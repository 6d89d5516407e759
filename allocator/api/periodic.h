/*
 * A thread of our own that prints what is allocated at each SIGUSR1 (usr1=on), and writes the file of stats= again and again.
 * There is none without these options. Thread safety: the thread that starts cufence, and the one that ends the process.
 */
#ifndef CUFENCE_API_PERIODIC_H
#define CUFENCE_API_PERIODIC_H

#include "base/options.h"

/* Reads the options. May be called again. Errors: OPTION, OVERFLOW (the file's name). */
cufence_status periodic_open(const struct options *options);

/* Starts the thread if an option asks for it, once cufence runs. Says on stderr if that fails. */
void periodic_start(void);

/* Stops it, and writes the file for the last time. */
void periodic_stop(void);

#endif
