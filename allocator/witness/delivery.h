/*
 * Where a report goes once it is made: standard error, the files of log= and json=, the program's handler; and it is kept for
 * cufence_last_report(). What one of these does not take is said where another one does.
 *
 * Thread safety: every function, from any thread, after delivery_open(). No lock is held while writing or calling the handler.
 */
#ifndef CUFENCE_WITNESS_DELIVERY_H
#define CUFENCE_WITNESS_DELIVERY_H

#include "base/options.h"

/* Learns the files' names from the options. Errors: OPTION, OVERFLOW (a name). May be called again. */
cufence_status delivery_open(const struct options *options);

/* Prints and saves a report, keeps copies of it, and counts it. Either may be NULL, for want of memory on the host: that is
 * said in its place. What has the identity of a report before it (identity.h; 0: of none), or comes when there have been
 * max_reports, is kept and counted only. Returns whether it was printed. */
int delivery_publish(const char *text, const char *json, uint64_t identity);

/* At the end: a line that says how much was counted and not printed, if there is any. */
void delivery_conclude(void);

/* Reports up to now, the same again not counted. */
uint64_t delivery_findings(void);

/* Calls the program's handler, if it has set one. */
void delivery_call_handler(const cufence_fault *fault);
void delivery_set_handler(cufence_fault_handler handler, void *user);

/* Whether the calling thread is in the handler now. */
int delivery_is_in_handler(void);

/* How many reports have been published, printed or not. */
uint64_t delivery_count(void);

/* The last report's text into buffer (cut to fit, ends with NUL). Returns its whole length with the NUL, 0 if there is none. */
size_t delivery_last_text(char *buffer, size_t size);

/* The same of its JSON. */
size_t delivery_last_json(char *buffer, size_t size);

#endif
