/*
 * Makes reports and has them delivered and saved.
 *
 * Thread safety: any thread, after tell_open().
 */
#pragma once

#include "kernel_fault.h"

#include "base/options.h"
#include "finding/finding.h"
#include "slack_rerun.h"

/* May be called again. Errors: OPTION, OVERFLOW (file names). */
cufence_status tell_open(const struct options *options);

/* Waits for the second launch, and reports the fault that was begun. Returns the time when the report was made, by
 * monotonic_ns(). */
uint64_t tell_fault(struct fault *fault);

/* Reports a fault on a device (-1: not known) without a dump that can be read, with the reason. Returns the same. */
uint64_t tell_unexplained(int device, const char *reason);

/* Reports bytes that were changed in the slack of a buffer. code: to launch kernels again; NULL if there is none. */
void tell_slack(struct slack_write *write, kernel_code code);

/* Reports a misuse by the host. */
void tell_misuse(const struct misuse *misuse);

/* Reports buffers that nobody has freed, and counts them as a fault. Call it once no fault can come any more. */
struct leak;
void tell_leak(struct leak *leak);

/* Appends to json= what the process has guarded. Called at its end. */
void tell_guarded(const struct guarded *guarded);

/* Reports that a launch has made a NaN. device: of the launch. stops: its contexts are marked as faulted before anybody is
 * told, so that who is told gets no memory. */
void tell_nan(const struct nan_fact *nan, int device, int stops);

/* Reports kernels that hang. Returns the text, which the caller frees; NULL: out of host memory. */
char *tell_stuck(struct stuck_fact *stuck, int device);

/* ---- what a finding says about the process: host, command line, job ---- */

/* Reads host, command line and environment. Called early, because the program may change its environment later. */
void process_open(void);

/* Returns the process, with the present time. `time` receives the text for the field of that name. */
struct finding_process process_now(char time[32]);
