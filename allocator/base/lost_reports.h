/*
 * Findings that somebody has taken from where they were found, and not reported yet. A report is made without a lock, so
 * meanwhile nobody else could see that there is one, and a process that ended then would end as if nothing was found.
 *
 * Thread safety: all functions, any thread.
 */
#pragma once

#include <stdint.h>

/* Brackets a report, or several. Begin it under the lock under which they are taken; it ends when the program's handler has
 * returned. */
void untold_begin(void);
void untold_end(void);

/* One will never be told, for want of host memory. And how many are not. */
void untold_for_ever(void);
unsigned untold_lost(void);

/* Whether another thread has some. In a report of its own, as in the program's handler, a thread waits for nobody's: two that
 * do would wait for each other. */
int untold_elsewhere(void);

/* Waits while there are, until that time of monotonic_ms(). Returns 0 if there still are. */
int untold_await(uint64_t until_ms);
