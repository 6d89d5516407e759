/*
 * Delivers finished reports to standard error, the files of log= and json=, and the program's handler, and keeps the last one
 * for cufence_last_report(). A failure of one destination is reported on another.
 *
 * Thread safety: all functions, any thread, after delivery_open(). No lock is held while writing or calling the handler.
 */
#pragma once

#include "base/options.h"

/* Reads the file names from the options. May be called again. Errors: OPTION, OVERFLOW (a name). */
cufence_status delivery_open(const struct options *options);

/* Prints a report, writes it to the files, keeps a copy and counts it. text or json is NULL if it could not be made for lack
 * of host memory; a message is delivered instead. A repetition (same identity as an earlier report, see finding.h; 0 never
 * matches), or a report beyond the 100th, is only kept and counted. Returns 1 if the report was printed. */
int delivery_publish(const char *text, const char *json, uint64_t identity);

/* Counts a report that the user knows already, and appends its first `json` (NULL: none) to the file of json=. */
void delivery_keep_known(const char *json, uint64_t identity);
uint64_t delivery_known(void); /* how many there were, without repetitions */

/* Adds to a report that has been delivered: prints `text` (lines), and appends it to log= and `json` (a line) to json=. */
void delivery_add(const char *text, const char *json);
/* The same for what belongs to no report; NULL: none. */
void delivery_print(const char *text, const char *json);

/* Whether the file of json= has nothing in it yet, so that it needs a first line. */
int delivery_needs_head(void);

/* Prints how many reports were counted but not printed, if any, and how many are known. Called at exit. */
void delivery_conclude(void);

/* Returns the number of reports so far, without repetitions. */
uint64_t delivery_findings(void);

/* Calls the program's handler, if set. */
void delivery_call_handler(const cufence_fault *fault);
void delivery_set_handler(cufence_fault_handler handler, void *user);

/* Returns 1 if the calling thread is inside the handler. */
int delivery_is_in_handler(void);

/* Returns the number of reports so far, printed or not. */
uint64_t delivery_count(void);

/* In a forked child, which is alone: the reports were its parent's. */
void delivery_forget(void);

/* Copies the last report's text to buffer, truncated to `size` and NUL-terminated. Returns its full length with the NUL, 0
 * if there is none. */
size_t delivery_last_text(char *buffer, size_t size);

/* The same for its JSON. */
size_t delivery_last_json(char *buffer, size_t size);
