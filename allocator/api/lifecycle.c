#include "lifecycle.h"

#include "closing.h"

#include "base/aside.h"
#include "base/env.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/output.h"
#include "base/tally.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/tunables.h"
#include "base/lost_reports.h"
#include "contexts/contexts.h"
#include "heap/unguarded/unguarded.h"
#include "kernels/kernels.h"
#include "launch/launch.h"
#include "launch/inspect_table.h"
#include "launch/pinned_memory.h"
#include "order/order.h"
#include "vmm/arena.h"
#include "fault/stuck.h"
#include "fault/delivery.h"
#include "fault/arming.h"
#include "fault/monitor.h"
#include "fault/program_dump.h"
#include "fault/saving.h"
#include "fault/tell.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DUMP_MS 5000         /* how long process exit waits for a core dump to begin */
#define REPORT_MS 10000      /* the same for a report under way, besides for a second launch */
#define MAKING_DUMP_MS 15000 /* the same for the driver that makes a dump; 8 s for a full device */
#define AFTER_DUMP_MS 1000   /* until the work that a fault has stopped counts as done */
#define DEBUGGER_REST_MS 500
#define LENS_MS 10000 /* how long it waits until the values of launches are written */

static struct {
    struct lock lock;   /* held while starting */
    int is_started;     /* atomic */
    int is_forked;      /* atomic; this process was forked from the one that started cufence */
    int has_worked;     /* atomic; a context has been created */
    int removes_traces; /* exit handlers are registered; a retried start must not register them twice */
    int is_rested;      /* atomic; see lifecycle_needs_no_rest() */
    pid_t pid;          /* the process that started cufence: a forked child has no CUDA */
    char *text;         /* the options it was started with; valid if is_started */
    struct options options;
} process = {.lock = LOCK(RANK_PROCESS)};

/* ---- process exit ---- */

static CUresult synchronise(const struct context *context)
{
    CUcontext popped;
    enum context_hold hold = context_hold(context);
    CUresult result = hold == CONTEXT_HAS_ENDED ? CUDA_SUCCESS : driver->cuCtxPushCurrent(context->handle);
    if (hold != CONTEXT_HAS_ENDED && result == CUDA_SUCCESS) {
        result = driver->cuCtxSynchronize();
        driver->cuCtxPopCurrent(&popped);
    }
    context_let_go(context, hold);
    return result;
}

static CUresult exit_result; /* written by the thread below, read only after joining it */

static void *synchronise_all(void *unused)
{
    (void)unused;
    for (struct context *context = context_next(NULL); context; context = context_next(context)) {
        CUresult result = synchronise(context);
        if (result != CUDA_SUCCESS && !driver_has_faulted(exit_result)) /* a fault is the worst result; keep it */
            exit_result = result;
    }
    return NULL;
}

static unsigned report_ms(void)
{
    uint64_t ms = REPORT_MS + process.options.rerun_ms + saving_limit_ms(&process.options);
    return ms < INT32_MAX ? (unsigned)ms : INT32_MAX;
}

/* Returns whether the thread has ended, as it does once a dump is complete. */
static int wait_for_dump(pthread_t thread)
{
    size_t contexts = 0;
    for (struct context *context = context_next(NULL); context; context = context_next(context))
        contexts++;
    if (monitor_wait(0) == CUFENCE_ERROR_TIMEOUT)
        return monitor_wait(report_ms()) == CUFENCE_OK && thread_join_within(thread, AFTER_DUMP_MS);
    return dumps_seem_begun(contexts) && thread_join_within(thread, MAKING_DUMP_MS);
}

static void *ask_streams(void *is_idle)
{
    int is = 1;
    for (struct context *context = context_next(NULL); context && is; context = context_next(context))
        is = context_is_idle(context);
    __atomic_store_n((int *)is_idle, is, __ATOMIC_RELEASE);
    return NULL;
}

#define ASK_MS 1000

/* A device that synchronises no more although all streams say that they are done, has faulted, and the driver has told nobody.
 */
static int has_swallowed(void)
{
    static int is_idle; /* atomic */
    pthread_t thread;
    if (!monitor_is_armed() || !contexts_are_watched() || thread_start(&thread, ask_streams, &is_idle) != 0)
        return 0;
    if (thread_join_within(thread, ASK_MS))
        return __atomic_load_n(&is_idle, __ATOMIC_ACQUIRE);
    pthread_detach(thread);
    return 0;
}

/* Waits for the dump of such a fault. Returns whether the thread that synchronises has ended. */
static int wait_for_swallowed(pthread_t thread)
{
    const uint64_t until = monotonic_ms() + tunables.swallowed;
    while (monotonic_ms() < until) {
        if (thread_join_within(thread, 100))
            return 1;
        if (monitor_wait(0) == CUFENCE_ERROR_TIMEOUT)
            return wait_for_dump(thread);
    }
    fault_swallow(kernels_only_device());
    return 0;
}

/* Waits until all work on the devices is done, because faults of work still running at exit must be reported too. A kernel that
 * waits for the host, or works on, must not keep the process alive: only a dump that has begun is waited for longer than
 * wait_ms says, and no more is waited for after a wait in vain. Returns 1 if all work is done. */
static int wait_for_devices(void)
{
    static int is_in_vain;
    pthread_t thread;
    if (is_in_vain || !process.options.exit_wait || thread_start(&thread, synchronise_all, NULL) != 0)
        return 0;
    if (thread_join_within(thread, process.options.exit_wait) || wait_for_dump(thread) ||
        (has_swallowed() && wait_for_swallowed(thread)))
        return 1;
    if (!fault_is_swallowed())
        output_say("cufence: the device was still working %llu ms after the program's end; later faults are not reported\n",
                   (unsigned long long)process.options.exit_wait);
    pthread_detach(thread);
    is_in_vain = 1;
    return 0;
}

static void print_stats(void)
{
    cufence_stats stats;
    if (heap_stats(-1, &stats) != CUFENCE_OK)
        return;
    char most[48] = "less than 1 MiB"; /* the peak is exact to that */
    if (stats.peak_live_bytes)
        snprintf(most, sizeof most, "at most %llu bytes", (unsigned long long)stats.peak_live_bytes);
    output_say("cufence: %llu allocation%s, %llu of them newly mapped; %s live; %llu mapping%s retired; %u fault%s\n",
               (unsigned long long)stats.allocations, plural(stats.allocations), (unsigned long long)stats.fresh_mappings, most,
               (unsigned long long)stats.retired_mappings, plural(stats.retired_mappings), (unsigned)delivery_count(),
               plural(delivery_count()));
    struct heap_slack_figures slack = heap_slack_figures();
    if (heap_watches())
        output_say("cufence: slack of %llu buffer%s checked in %llu launch%s; that of %llu could not be, because other buffers "
                   "got the memory first; that of %llu had no pattern yet when cuMemAlloc returned: the device was busy\n",
                   (unsigned long long)slack.checked, plural(slack.checked), (unsigned long long)slack.launches,
                   plural_es(slack.launches), (unsigned long long)slack.missed, (unsigned long long)slack.late);
}

static void remove_traces_aside(void *unused)
{
    (void)unused;
    if (!__atomic_load_n(&process.has_worked, __ATOMIC_RELAXED))
        closing_say_unused();
    monitor_stop();
    output_flush();
}

/* Waits for all work and for the reports of its faults. Returns 1 if all work is done. */
static int wait_for_faults(void)
{
    if (!wait_for_devices())
        return 0;
    if (driver_has_faulted(exit_result))
        monitor_await_dump();
    if (monitor_flush(DUMP_MS) != CUFENCE_OK)
        monitor_wait(report_ms());
    return 1;
}

/* Runs at the end of the main thread. If the process exits from there, this is before all exit handlers. That includes the
 * handlers that the driver's debugger library has registered since the fault, which would crash a dump in progress. Without the
 * preload library those handlers do run, so the debugger gets some time to come to rest first; the simulated device has none.
 */
static void await_faults(void *unused)
{
    (void)unused;
    if (wait_for_faults() && (delivery_count() || delivery_known()) && !driver->is_sim &&
        !__atomic_load_n(&process.is_rested, __ATOMIC_ACQUIRE))
        usleep(DEBUGGER_REST_MS * 1000);
}

static void before_exit(void *unused)
{
    if (getpid() == process.pid)
        aside_call(await_faults, unused);
}

extern int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *object); /* of the C library */
extern char __dso_handle;

static void wait_before_exit(void)
{
    static int is_registered; /* used by the main thread only */
    if (thread_id() != (uint32_t)getpid() || is_registered)
        return;
    is_registered = 1;
    __cxa_thread_atexit_impl(before_exit, NULL, &__dso_handle);
}

struct end {
    int status, exitcode;
};

/* Reports what is found by now, and waits for what other threads are reporting. Returns 0 if something is not told. */
static int await_reports(void)
{
    if (delivery_is_in_handler())
        return 1;
    heap_collect();
    int is_told = untold_await(monotonic_ms() + report_ms()) && (!monitor_is_busy() || delivery_count() || delivery_known());
    unsigned lost = untold_lost();
    if (!is_told)
        output_note("a finding was still being reported when the process ended");
    if (lost)
        output_note("the host had no memory to report %u finding%s", lost, plural(lost));
    return is_told && !lost;
}

static void conclude(void *argument)
{
    struct end *end = argument;
    int status = end->status, blind = monitor_blind();
    int is_synchronised = wait_for_faults();
    if (is_synchronised && !driver_has_faulted(exit_result))
        settle_check(NULL);
    if (inspector_now())
        inspector_now()->close(LENS_MS);
    if (is_synchronised)
        monitor_flush(DUMP_MS);
    monitor_stop();
    heap_close();
    int is_told = await_reports();
    int has_failed = fault_is_swallowed() || (is_synchronised && driver_has_faulted(exit_result));
    if (has_failed && !fault_is_swallowed() && !monitor_knows_fault(-1) && !monitor_is_busy() && !delivery_is_in_handler()) {
        const char *name = "a kernel's exception";
        char reason[128];
        driver->cuGetErrorName(exit_result, &name);
        snprintf(reason, sizeof reason, "%s; without a core dump, nothing more is known", name);
        tell_unexplained(-1, reason);
    }
    if (process.options.leaks && __atomic_load_n(&process.has_worked, __ATOMIC_RELAXED))
        closing_report_leaks();
    delivery_conclude();
    if (process.options.streams && !order_is_wanted() && __atomic_load_n(&process.has_worked, __ATOMIC_RELAXED))
        output_say(
            "cufence: streams=on has seen no stream: start the program with `cufence run`, which shows it the launches\n");
    int is_found = delivery_count() || (has_failed && !delivery_known()) || !is_told;
    if (is_found)
        tally_note(TALLY_FOUND);
    int exitcode = status == 0 && is_found ? (int)process.options.exitcode : 0;
    if (__atomic_load_n(&process.has_worked, __ATOMIC_RELAXED)) {
        closing_record();
        closing_say(&(struct ending){status, exitcode, has_failed, is_told, is_synchronised, blind, settle_unchecked(),
                                     process.options.say == SAY_QUIET, process.options.say == SAY_VERBOSE});
    }
    if (process.options.say == SAY_VERBOSE)
        print_stats();
    output_flush();
    end->exitcode = exitcode;
}

static struct {
    uint32_t thread; /* atomic: who concludes */
    int is_over;     /* atomic */
} conclusion;

static void at_exit(int status, void *unused);

/* Another thread's exit(): before glibc 2.41 it runs the handlers that are left, and ends the process, whatever is still to be
 * said. The conclusion waits for who calls exit() in a fault handler. */
static void await_conclusion(uint32_t first)
{
    const uint64_t until = monotonic_ms() + report_ms();
    if (first == thread_id() || delivery_is_in_handler() || __atomic_load_n(&conclusion.is_over, __ATOMIC_ACQUIRE))
        return;
    on_exit(at_exit, NULL); /* for a third one */
    while (!__atomic_load_n(&conclusion.is_over, __ATOMIC_ACQUIRE) && monotonic_ms() < until)
        usleep(1000);
}

/* Any thread may call exit(), however small its stack. */
static void at_exit(int status, void *unused)
{
    struct end end = {status, 0};
    uint32_t first = 0;
    (void)unused;
    if (getpid() != process.pid)
        return;
    if (__atomic_compare_exchange_n(&conclusion.thread, &first, thread_id(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        on_exit(at_exit, NULL);
        aside_call(conclude, &end);
        __atomic_store_n(&conclusion.is_over, 1, __ATOMIC_RELEASE);
    } else {
        await_conclusion(first);
        end.exitcode = !status && delivery_count() ? (int)process.options.exitcode : 0;
    }
    if (stuck_has_ended()) {
        fflush(NULL);
        _exit(end.exitcode ? end.exitcode : status);
    }
    if (end.exitcode) /* the remaining exit handlers run with the new status */
        exit(end.exitcode);
}

/* A process without a context gets here alone, and may have a finding too. */
static void remove_traces(int status, void *unused)
{
    if (delivery_count() || untold_elsewhere())
        at_exit(status, unused);
    if (getpid() == process.pid)
        aside_call(remove_traces_aside, unused);
}

/* Registers the exit handler again with each context, so that it runs before the driver's own: a driver that creates a context
 * after a reset registers its handler again. */
static void context_begun(struct context *context)
{
    lock_expect(RANK_CONTEXTS);
    __atomic_store_n(&process.has_worked, 1, __ATOMIC_RELAXED);
    tally_note(TALLY_CONTEXT);
    on_exit(at_exit, NULL);
    wait_before_exit();
    monitor_add_context(context);
    heap_context_begun(context);
    if (inspector_now())
        inspector_now()->context_begun(context);
}

static void context_gone(struct context *context)
{
    lock_expect(RANK_CONTEXTS);
    if (inspector_now())
        inspector_now()->context_gone(context);
    kernels_forget(context);
    if (order_is_wanted())
        order_context_gone(context);
    heap_context_gone(context);
    passed_context_gone(context);
    launch_forget_context(context);
    pinned_forget_context(context);
}

static void stream_ends(struct stream *stream)
{
    lock_expect(RANK_TOUCH);
    heap_stream_ends(stream);
    if (order_is_wanted())
        order_stream_ends(stream);
}

/* CUDA does not survive a fork. In the child every call goes to the driver, which returns an error, and locks that the parent's
 * threads held are never waited for. */
static void after_fork(void)
{
    contexts_close();
    delivery_forget();
    __atomic_store_n(&process.is_started, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&process.is_forked, 1, __ATOMIC_RELEASE);
}

/* ---- start ---- */

/* Whoever opens the file of json= says so itself. */
static void warn(const char *option, const char *sentence)
{
    if (strcmp(option, "json") != 0)
        output_note("%s", sentence);
}

/* On failure, everything but the open driver library is undone, so that the start may be retried. */
static cufence_status start(const char *options)
{
    tunables_read();
    options_default(&process.options);
    cufence_status status = options_parse(&process.options, env_get("CUFENCE_OPTIONS"), "CUFENCE_OPTIONS")
                                ?: options_parse(&process.options, options, "cufence_init");
    int hides = status == CUFENCE_OK && process.options.explain != EXPLAIN_OFF;
    if (hides)
        program_dump_hide();
    status = status ?: driver_load();
    if (status == CUFENCE_OK)
        writable_check(&process.options, 1, warn);
    status = status ?: lifecycle_inspect(&process.options, 1) ?: monitor_start(&process.options);
    if (hides)
        program_dump_show();
    if (status != CUFENCE_OK) {
        program_dump_hand_back();
        return status;
    }
    /* An entry with a native stack is four times as large, and the ring is cheap only if it stays in the CPU cache. */
    launch_open(stack_has_python() ? process.options.launches : (process.options.launches + 3) / 4);
    static const struct context_events events = {context_begun, context_gone, stream_ends};
    contexts_open(&events);
    heap_on_slack(slack_report);
    status = heap_open(&process.options);
    if (status != CUFENCE_OK) {
        monitor_cancel();
        return status;
    }
    wait_before_exit();
    if (!process.removes_traces)
        process.removes_traces = on_exit(remove_traces, NULL) == 0 && /* also needed if no context is ever created */
                                 pthread_atfork(NULL, NULL, after_fork) == 0;
    if (process.options.say == SAY_VERBOSE)
        output_say("cufence %s: driver %s (CUDA %d.%d), %llu GiB of address space%s, core dumps %s\n", cufence_version_string(),
                   driver->path, driver->version / 1000, driver->version % 1000 / 10,
                   (unsigned long long)((arena_end() - arena_start()) >> 30), arena_end() ? "" : " so far (ulimit -v)",
                   monitor_is_armed() ? "armed" : "not armed");
    return CUFENCE_OK;
}

static cufence_status refuse_child(void)
{
    return error_set(
        CUFENCE_ERROR_NOT_INITIALIZED,
        "this process was forked from one that uses CUDA, and a child cannot use it; start CUDA after the fork, or "
        "use another start method (spawn)");
}

cufence_status lifecycle_start(const char *options)
{
    const char *text = options ? options : "";
    if (__atomic_load_n(&process.is_forked, __ATOMIC_ACQUIRE))
        return refuse_child();
    HOLD(&process.lock);
    if (process.is_started)
        return strcmp(process.text, text) == 0
                   ? CUFENCE_OK
                   : error_set(CUFENCE_ERROR_ALREADY_INITIALIZED,
                               "cufence already runs with the options \"%s\"; \"%s\" comes too late", process.text, text);
    process.text = strdup(text);
    process.pid = getpid();
    cufence_status status = process.text ? start(options) : error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    __atomic_store_n(&process.is_started, status == CUFENCE_OK, __ATOMIC_RELEASE);
    if (status != CUFENCE_OK)
        free(process.text);
    return status;
}

cufence_status lifecycle_check(void)
{
    if (__atomic_load_n(&process.is_started, __ATOMIC_ACQUIRE))
        return CUFENCE_OK;
    if (__atomic_load_n(&process.is_forked, __ATOMIC_ACQUIRE))
        return refuse_child();
    return error_set(CUFENCE_ERROR_NOT_INITIALIZED, "cufence_init() has not been called, or has failed");
}

const struct options *lifecycle_options(void)
{
    return &process.options;
}

void lifecycle_needs_no_rest(void)
{
    __atomic_store_n(&process.is_rested, 1, __ATOMIC_RELEASE);
}
