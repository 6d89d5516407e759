/*
 * The monitor: arms GPU core dumps, reads them from a FIFO on a thread of its own while the driver writes them, and makes
 * each one a report. With on_fault=error it then makes the context's error real, because a driver that takes dumps without
 * abort swallows it.
 *
 * Thread safety: every function, from any thread, after monitor_start(). Locks are not held while calling the driver, the
 * sources or a handler.
 */
#ifndef CUFENCE_WITNESS_MONITOR_H
#define CUFENCE_WITNESS_MONITOR_H

#include "contexts/contexts.h"
#include "finding/misuse.h"
#include "base/options.h"
#include "surroundings.h"

/*
 * Makes the FIFO, arms the dumps and starts the thread. `options` and `sources` must stay. Before the first context exists.
 * Where dumps cannot be had (driver older than CUDA 12.1, environment that points them elsewhere, no place for a FIFO) it
 * says so once on stderr and returns OK: faults are still caught, not explained.
 * Errors: SYSTEM (the thread), OPTION (a file's name). Nothing is left of a failed start, and it may be tried again.
 */
cufence_status monitor_start(const struct options *options, const struct fault_sources *sources);

/* Undoes monitor_start(): for a start of the process that fails later on. No context exists yet, no other thread calls. */
void monitor_cancel(void);

/* Prepares a context for fences and for on_fault=error; it is current. Once for each. A failure costs only these. */
void monitor_add_context(struct context *context);

/* The context is gone. Faults of it that are not reported yet will be, as far as a dump tells. */
void monitor_forget_context(const struct context *context);

/* Reports what a call on the host did wrong with a buffer, and counts it as a fault. */
void monitor_misuse(const struct misuse *misuse);

/* Waits for dumps under way (monitor_flush), then stops the thread and removes the FIFO. */
void monitor_stop(unsigned timeout_ms);

int monitor_is_armed(void);

/* Waits until no dump is on its way or being explained. Errors: TIMEOUT, UNSUPPORTED (in a fault handler, at once). A fault
 * whose dump the driver has not begun to write is not known here: monitor_flush() finds it, if the work that has it is done. */
cufence_status monitor_wait(unsigned timeout_ms);
cufence_status monitor_flush(unsigned timeout_ms);

/* A context has an error that a kernel's fault makes, and no fault is known: waits until the dump begins, 2 s at most. The copy
 * engine's errors have no dump: after one wait in vain it does not wait again. */
void monitor_await_dump(void);

/*
 * After a synchronisation in the current context: waits for the report of what faulted, and with on_fault=error for the
 * error of that context to be real, 5 s at most. 10 us where nothing has faulted; a fault on another device delays it only
 * while its dump is being read. is_device_idle  the whole context has been synchronised. Else other streams may keep the device
 * busy: then it waits for 0.3 s at most, once in the process, and learns that these waits are no use. Returns FAULTED if there
 * was a fault on the context's device that the program shall see, else OK.
 */
cufence_status fault_settle(int is_device_idle);

/* The same, but without waiting for the error to be real: for callers that give it out themselves. */
void fault_learn(int is_device_idle);

#endif
