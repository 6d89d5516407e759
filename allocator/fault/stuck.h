/*
 * Kernels that hang. The driver is asked for a dump of what runs, by its trigger pipe, and where all threads stand becomes a
 * report. Who asks: `cufence stuck PID`, through the hidden thread's pipe (descriptors.h), and stuck=SECONDS, where nothing was
 * launched for so long and the device still works.
 *
 * Thread safety: the monitor's thread alone, but stuck_open(): before that begins.
 */
#pragma once

#include "kernel_fault.h"

void stuck_open(const struct options *options); /* which must outlive the monitor */

/* How many milliseconds the thread may sleep until it has to call stuck_turn(), -1: until something comes. */
int stuck_sleep_ms(void);

/* Takes a request, and looks whether it is time for one. Call it while no dump is being read. */
void stuck_turn(void);

/* Whether a dump was asked for, and is awaited, or one has ended the contexts: there may be one for each device. */
int stuck_is_asked(void);
void stuck_give_up(const char *why); /* it comes no more; where none is awaited, nothing happens */

/* The driver has ended the contexts for a dump. Measured (580.159): a process then does not end by itself. */
int stuck_has_ended(void);

/* Of a dump without an exception: reports it if it was asked for. Returns 0 if it was not. */
int stuck_take(const struct fault *fault);
