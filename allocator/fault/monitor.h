/*
 * The monitor arms GPU core dumps, reads them from a FIFO on its own thread while the driver writes them, and reports each one.
 * With on_fault=error it then makes the context's error sticky, because a driver that dumps without abort swallows the error.
 *
 * Thread safety: all functions, any thread, after monitor_start(). No lock is held while calling the driver or a handler.
 */
#pragma once

#include "contexts/contexts.h"
#include "finding/misuse.h"
#include "base/options.h"

/*
 * Makes the FIFO, arms the dumps and starts the thread. Call it before the first context exists. `options` must outlive the
 * monitor. If dumps are not available (driver older than CUDA 12.1, variables that it has seen before, no
 * place for a FIFO), prints that to stderr once and returns OK: faults are still caught, but not explained.
 * Errors: SYSTEM (the thread), OPTION (a file name). A failed start leaves nothing behind and may be repeated.
 */
cufence_status monitor_start(const struct options *options);

/* Undoes monitor_start() if a later step of the process start fails. Requires that no context exists and no other thread
 * calls. */
void monitor_cancel(void);

/* Prepares the current context `context` for fences and for on_fault=error. Call it once per context. If it fails, only
 * these two are unavailable. */
void monitor_add_context(struct context *context);

/* Reports a misuse of a buffer by the host, and counts it as a fault. */
void monitor_misuse(const struct misuse *misuse);

/* Stops the thread and removes the FIFO. A report that takes longer than one
 * can is left to itself: the program's handler may not return. */
void monitor_stop(void);

int monitor_is_armed(void);

/* Why the driver could not write a dump if a kernel faulted now: an errno value, EMFILE if the program has used up its
 * descriptors (those that cufence keeps for a report are still taken), ENOENT after chroot(). 0: it could. */
int monitor_blind(void);

int monitor_is_busy(void);      /* a dump is being read or reported */
int monitor_is_under_way(void); /* bytes of one have come, and it is not read to its end */
/* A kernel has faulted on a device (-1: on any), as far as is known; or on the current context's, without a driver call before
 * the first fault. */
int monitor_knows_fault(int device);
int monitor_has_fault(void);
int monitor_returns_errors(void);                /* on_fault=error, and dumps are armed */
void monitor_await_reading(unsigned timeout_ms); /* while one is under way */

/* Wait until no dump is being written or explained, and every report is finished. Errors: TIMEOUT, UNSUPPORTED (in a fault
 * handler, immediately). Does not know about a fault whose dump the driver has not begun to write; monitor_flush() finds that
 * one once the faulting work has finished. */
cufence_status monitor_wait(unsigned timeout_ms);
cufence_status monitor_flush(unsigned timeout_ms);

/* Waits for the report of a fault whose dump has begun, for the program may know of it by then; and for the reports of other
 * threads. Takes no lock. Returns at once on the monitor's own thread. */
void monitor_await_report(void);

/* Call it if a context has an error that a kernel fault causes, and no fault is known: waits until a dump begins, 5 s at
 * most. Errors of the copy engine have no dump, so after one timeout it never waits again. */
void monitor_await_dump(void);

/* ---- sync_fence.c ---- */

/*
 * Call it after a synchronisation in the current context. Waits until a fault's dump is read and, with on_fault=error, until
 * the context's error is sticky; not for the report, which may take longer. Takes 10 us if nothing has faulted. A fault on
 * another device delays it only while its dump is being read. is_device_idle: the whole context was synchronised. If the device
 * then answers no launch, and nobody launches anything, a fault's dump is waited for, 30 s at most; without one, the fault is
 * noted (fault_is_swallowed()). Otherwise other streams may keep the device busy: unless they all say that they are done, it
 * waits for 0.3 s at most, and after one such timeout in the process never again. Returns FAULTED if there was a fault on the
 * context's device and on_fault=error, else OK.
 */
cufence_status fault_settle(int is_device_idle);

/* The same, but does not wait for the error to become sticky: for callers that return the error themselves. */
void fault_learn(int is_device_idle);

/* A kernel has faulted on the device, the driver has told nobody, and no dump has come. fault_swallow(): says so, once, and
 * marks the device's contexts. */
int fault_is_swallowed(void);
void fault_swallow(int device);
