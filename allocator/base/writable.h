/*
 * Whether the files and folders that options name can be written. They are needed at a fault, days after the start perhaps: who
 * checks at the start says in time what is in the way.
 *
 * Thread safety: any thread.
 */
#ifndef CUFENCE_BASE_WRITABLE_H
#define CUFENCE_BASE_WRITABLE_H

#include "options.h"

/* Gets a sentence without a newline: the option, what is in the way, and the way out. */
typedef void writable_complaint(const char *option, const char *sentence);

/*
 * Calls `complain` for each option whose file or folder could not be written now, and returns how many there are. Creates
 * nothing. is_here: %p, %r and %h stand for this process; otherwise for others that are to come, and only the folders in front
 * of them are checked.
 */
int writable_check(const struct options *options, int is_here, writable_complaint *complain);

#endif
