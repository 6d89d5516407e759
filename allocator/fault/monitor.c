#include "monitor.h"

#include "arming.h"
#include "base/lock.h"
#include "base/aside.h"
#include "base/clock.h"
#include "base/output.h"
#include "base/thread.h"
#include "base/lost_reports.h"
#include "delivery.h"
#include "base/error.h"
#include "descriptors.h"
#include "kernels/kernels.h"
#include "program_dump.h"
#include "saving.h"
#include "stuck.h"
#include "tell.h"
#include "vmm/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SETTLE_MS 5000
/* The driver itself makes the error sticky 22 to 25 ms after a dump (H100, driver 580.159.04); a second fault takes 110 to
 * 150 ms. */
#define REAL_ERROR_MS 100
#define POISON_MS 500
/* The driver's debugger thread keeps running for a while after that; a process that exits meanwhile crashes in it (same
 * driver). */
#define SETTLING_MS 100
/* Of processes that fault on one device at once, some see the error before their dump: one of eight, and one of six, which
 * waited for it for 2 s in vain. */
#define LATE_DUMP_MS 5000
#define PROGRESS_MS 1000 /* first progress line; the interval then doubles */
#define MIB ((double)(1 << 20))

enum work {
    WORK_NONE,
    WORK_REPORT, /* the program knows of the fault, but its report is not finished */
    WORK_DUMP    /* a dump is being read */
};

static struct {
    struct lock lock; /* guards every field not marked otherwise; a leaf lock */
    pthread_cond_t change;
    enum work work;           /* atomic; written under lock */
    uint64_t faulted_devices; /* atomic: a bit for each of devices 0 to 63 on which a kernel has faulted */
    int has_other_fault;      /* atomic: a kernel faulted on another, or on an unknown device */
    int is_running;           /* set by monitor_start(), cleared by monitor_stop() */

    /* Constant while the thread runs. */
    pthread_t thread;
    const struct options *options;
    int is_armed;
    struct dump_pipe pipe;

    /* Used by the thread only. */
    unsigned poisons;     /* atomic, written by the thread: faults that cufence caused itself and whose dumps may still come */
    int is_announced;     /* the first line about the current dump has been printed */
    unsigned progress_ms; /* when the next progress line is due, in ms from the dump's first byte */
    uint64_t evidence_ns; /* when the last dump was parsed ... */
    uint64_t made_ns;     /* ... and when its report was made */
} monitor = {.lock = LOCK(RANK_LEAF), .pipe = {.end = -1}};

/* ---- which devices have faulted ---- */

/* device: -1 if unknown. */
static void note_fault(int device)
{
    if (device >= 0 && device < 64)
        __atomic_or_fetch(&monitor.faulted_devices, UINT64_C(1) << device, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&monitor.has_other_fault, 1, __ATOMIC_RELEASE);
}

int monitor_knows_fault(int device)
{
    if (__atomic_load_n(&monitor.has_other_fault, __ATOMIC_ACQUIRE))
        return 1;
    uint64_t devices = __atomic_load_n(&monitor.faulted_devices, __ATOMIC_ACQUIRE);
    return device < 0 ? devices != 0 : device < 64 && (devices >> device & 1);
}

int monitor_has_fault(void)
{
    return monitor_knows_fault(-1) && monitor_knows_fault(kernels_current_device());
}

/* ---- from a dump to a report ---- */

static int is_ours(const struct evidence *evidence)
{
    for (size_t i = 0; i < evidence->stop_count; i++) {
        if (!evidence->stops[i].symbol || strcmp(evidence->stops[i].symbol, POISON_KERNEL) != 0)
            return 0;
    }
    return evidence->stop_count > 0;
}

static int wait_for_error(int device, int ms)
{
    for (int waited = 0; waited < ms && !kernels_have_failed(device); waited += 5)
        aside_sleep(5000);
    return kernels_have_failed(device);
}

static void abort_if_wanted(void)
{
    if (monitor.options->on_fault != ON_FAULT_ABORT)
        return;
    dumps_remove_name(&monitor.pipe);
    output_flush();
    abort();
}

/* Notes the fault, and does what on_fault says; with on_fault=error, the contexts are marked by then. */
static void act(int device)
{
    note_fault(device);
    abort_if_wanted();
    if (monitor.options->on_fault == ON_FAULT_ERROR) {
        if (!wait_for_error(device, REAL_ERROR_MS)) {
            __atomic_fetch_add(&monitor.poisons, kernels_poison(device, arena_start()), __ATOMIC_RELAXED);
            wait_for_error(device, POISON_MS);
        }
        if (!driver->is_sim)
            aside_sleep(SETTLING_MS * 1000);
    }
}

static double ms_between(uint64_t begin_ns, uint64_t end_ns)
{
    return end_ns > begin_ns ? (double)(end_ns - begin_ns) / 1e6 : 0;
}

/* Prints how long each step from the dump's first byte to the report took. */
static void tell_times(const struct dump *dump)
{
    output_say(
        "cufence: core dump of %.1f MiB: written in %.0f ms, %.0f of them to copy it; parsed in %.0f, explained in %.0f, "
        "delivered in %.0f ms\n",
        (double)dump->received / MIB, ms_between(dump->begin_ns, dump->end_ns), (double)dump->copying_ns / 1e6,
        ms_between(dump->end_ns, monitor.evidence_ns), ms_between(monitor.evidence_ns, monitor.made_ns),
        ms_between(monitor.made_ns, monotonic_ns()));
}

static void set_work(enum work work)
{
    HOLD(&monitor.lock);
    __atomic_store_n(&monitor.work, work, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&monitor.change);
}

static void explain_opened(struct fault *fault, const struct problem *problem)
{
    const struct evidence *evidence = fault->evidence;
    if (evidence)
        fault_begin(fault, monitor.options);
    int is_known = evidence && evidence->stop_count > 0;
    CUresult error = is_known ? (CUresult)evidence->stops[0].exception.error : CUDA_ERROR_LAUNCH_FAILED;
    /* The program does not wait for a second launch, but it must not end before the report: with on_fault=abort it would, and
     * without the preload library nobody sees it end (monitor_await_report()). */
    int is_later = fault->source && monitor.options->on_fault != ON_FAULT_ABORT && contexts_are_watched();
    if (monitor.options->on_fault == ON_FAULT_ERROR)
        contexts_set_faulted(fault->device, error); /* first: who is told gets no memory */
    if (is_later) {
        act(fault->device);
        set_work(WORK_REPORT);
    }
    char reason[640];
    snprintf(reason, sizeof reason, "its core dump (%zu bytes) cannot be read: %s", fault->dump->received, problem->text);
    monitor.made_ns = evidence ? tell_fault(fault) : tell_unexplained(-1, reason);
    if (monitor.options->say == SAY_VERBOSE)
        tell_times(fault->dump);
    if (!is_later)
        act(fault->device);
}

static void explain(const struct dump *dump)
{
    struct fault fault;
    struct problem problem;
    cufence_status status = fault_open(&fault, dump, &problem);
    monitor.evidence_ns = monotonic_ns();
    if (status == CUFENCE_OK && is_ours(fault.evidence)) {
        __atomic_fetch_sub(&monitor.poisons, monitor.poisons > 0, __ATOMIC_RELAXED);
    } else if (status == CUFENCE_OK && !fault.evidence->stop_count && stuck_take(&fault)) {
        note_fault(fault.device);
        abort_if_wanted();
    } else {
        int is_triggered = status == CUFENCE_OK && !fault.evidence->stop_count && program_dump_has_trigger();
        program_dump_write(dump, fault.device, is_triggered); /* first: who is told may end the process */
        if (!is_triggered) {
            stuck_give_up("a kernel has faulted meanwhile; what the program prints tells where");
            explain_opened(&fault, &problem);
        }
    }
    fault_close(&fault);
}

/* ---- the thread ---- */

/* While a second launch is waited for, the bytes may be those of the dump of a fault that cufence caused itself. */
int monitor_is_under_way(void)
{
    int has_bytes = dumps_have_bytes(&monitor.pipe); /* first: the thread sets what it does before it reads */
    enum work work = __atomic_load_n(&monitor.work, __ATOMIC_ACQUIRE);
    return work == WORK_DUMP || (has_bytes && !(work == WORK_REPORT && __atomic_load_n(&monitor.poisons, __ATOMIC_RELAXED)));
}

static int is_report_due(void)
{
    return monitor_is_under_way() || monitor_is_busy() || untold_elsewhere();
}

/* Prints a first line before the dump is complete. Faults that cufence caused itself are not announced, nor what may be a dump
 * that the program has asked for by its trigger pipe. */
static void announce(void)
{
    int device = kernels_only_device();
    if (monitor.is_announced || monitor.poisons || program_dump_has_trigger() || stuck_is_asked())
        return;
    monitor.is_announced = 1;
    if (device >= 0)
        output_note("a kernel has faulted on GPU %d; reading the driver's core dump", device);
    else
        output_note("a kernel has faulted; reading the driver's core dump");
}

static void show_progress(const struct dump *dump)
{
    uint64_t ms = dump->received ? (monotonic_ns() - dump->begin_ns) / 1000000 : 0;
    if (ms < monitor.progress_ms)
        return;
    monitor.progress_ms *= 2;
    if (output_is_terminal())
        output_note("%.1f MiB of the core dump in %.1f s; the driver is still writing", (double)dump->received / MIB,
                    (double)ms / 1000);
}

/* Waits for input, or for the end of a dump. Returns 0 when the thread must stop. */
static int wait_for_input(const struct dump *dump)
{
    int ready;
    if (dump->received)
        dump_rest(monitor.pipe.end);
    while ((ready = hidden_wait(dump->received ? PROGRESS_MS / 4 : stuck_sleep_ms(), dump->received != 0)) >= 0) {
        if (ready && dumps_renew(&monitor.pipe) && (dump->received || dumps_have_bytes(&monitor.pipe)))
            return 1;
        if (!dump->received)
            stuck_turn();
        if (!ready)
            show_progress(dump);
    }
    return 0;
}

/* It may run the program's handler, as of SIGABRT with on_fault=abort, which may exit the process. */
static _Thread_local int is_own_thread;

static void *run(void *unused)
{
    (void)unused;
    is_own_thread = 1;
    struct dump dump = {0};
    pthread_setname_np(pthread_self(), "cufence-monitor");
    while (wait_for_input(&dump)) {
        if (monitor.work != WORK_DUMP) {
            monitor.is_announced = 0;
            monitor.progress_ms = PROGRESS_MS;
            set_work(WORK_DUMP);
            dump_widen(monitor.pipe.end);
        }
        enum dump_state state;
        do {
            state = dump_take(monitor.pipe.end, &dump);
            if (dump.received)
                announce();
            show_progress(&dump);
        } while (state == DUMP_TAKEN);
        if (state == DUMP_AWAITED)
            continue;
        if (dump.received) {
            spares_lend();
            explain(&dump);
            spares_take();
        }
        dump_forget(&dump);
        set_work(WORK_NONE);
    }
    dump_forget(&dump);
    set_work(WORK_NONE);
    return NULL;
}

static void init_change(void)
{
    lock_condition_init(&monitor.change);
}

cufence_status monitor_start(const struct options *options)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_change);
    monitor.options = options;
    cufence_status status = tell_open(options);
    if (status != CUFENCE_OK)
        return status;
    int is_wanted = options->explain != EXPLAIN_OFF;
    status = is_wanted ? dumps_arm(&monitor.pipe) : CUFENCE_OK;
    if (status == CUFENCE_ERROR_OUT_OF_MEMORY)
        return CUFENCE_ERROR_SYSTEM; /* the detail says why */
    if (status != CUFENCE_OK)
        output_say("cufence: faults will be caught but not explained: %s\n", error_detail());
    if (status != CUFENCE_OK || !is_wanted) {
        if (options->stuck)
            output_note("stuck= is off: there are no dumps");
        return CUFENCE_OK;
    }
    stuck_open(options);
    int failed = !dumps_listen(&monitor.pipe) ? errno : thread_start(&monitor.thread, run, NULL);
    if (failed) {
        dumps_disarm();
        dumps_forget_pipe(&monitor.pipe);
        dumps_close(&monitor.pipe);
        return error_set(CUFENCE_ERROR_SYSTEM, "cannot start the thread that reads core dumps: %s", strerror(failed));
    }
    spares_take();
    monitor.is_armed = 1;
    monitor.is_running = 1;
    return CUFENCE_OK;
}

void monitor_cancel(void)
{
    if (monitor.is_armed)
        dumps_disarm();
    monitor_stop();
    dumps_close(&monitor.pipe);
    monitor.is_armed = 0;
}

void monitor_add_context(struct context *context)
{
    if (monitor.is_armed)
        kernels_prepare(context);
}

void monitor_misuse(const struct misuse *misuse)
{
    tell_misuse(misuse);
    abort_if_wanted();
}

void monitor_stop(void)
{
    if (!monitor.is_running)
        return;
    hidden_stop();
    uint64_t report_ms = monitor.options->rerun_ms + saving_limit_ms(monitor.options) + SETTLE_MS;
    if (!is_own_thread && !thread_join_within(monitor.thread, report_ms))
        pthread_detach(monitor.thread); /* even if it hangs */
    monitor.is_running = 0;
    spares_end();
    dumps_forget_pipe(&monitor.pipe);
}

int monitor_is_armed(void)
{
    return monitor.is_armed;
}

int monitor_blind(void)
{
    int fd = monitor.is_armed ? open(monitor.pipe.path, O_PATH | O_CLOEXEC) : AT_FDCWD, error = errno;
    if (fd >= 0)
        close(fd);
    return fd == -1 ? error : 0;
}

int monitor_is_busy(void)
{
    return __atomic_load_n(&monitor.work, __ATOMIC_ACQUIRE) != WORK_NONE;
}

/* Waits while `is_due`. */
static cufence_status wait_while(int (*is_due)(void), unsigned timeout_ms)
{
    const uint64_t until = monotonic_ns() + timeout_ms * NS_PER_MS;
    const struct timespec late = clock_after(CLOCK_MONOTONIC, timeout_ms * NS_PER_MS);
    if (delivery_is_in_handler() || is_own_thread)
        return error_set(
            CUFENCE_ERROR_UNSUPPORTED,
            "a fault handler cannot wait for reports: the report that it was called for ends only after it returns");
    int is_late = 0, cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    while (is_due() && !is_late) {
        is_late = monotonic_ns() >= until;
        const struct timespec soon = clock_after(CLOCK_MONOTONIC, NS_PER_MS); /* nothing signals `change` when bytes arrive */
        HOLD(&monitor.lock);
        lock_wait(&monitor.lock, &monitor.change, monitor.work != WORK_NONE ? &late : &soon);
    }
    pthread_setcancelstate(cancel_state, NULL);
    return is_late ? error_set(CUFENCE_ERROR_TIMEOUT, "a report was still being made after %u ms", timeout_ms) : CUFENCE_OK;
}

cufence_status monitor_wait(unsigned timeout_ms)
{
    return wait_while(is_report_due, timeout_ms);
}

void monitor_await_reading(unsigned timeout_ms)
{
    wait_while(monitor_is_under_way, timeout_ms);
}

int monitor_returns_errors(void)
{
    return monitor.is_armed && monitor.options->on_fault == ON_FAULT_ERROR;
}

void monitor_await_report(void)
{
    if (!monitor.is_running || is_own_thread)
        return;
    for (uint64_t waited = 0; waited < monitor.options->rerun_ms + SETTLE_MS; waited++) {
        if (!is_report_due())
            return;
        aside_sleep(1000);
    }
}

void monitor_await_dump(void)
{
    static int is_in_vain; /* atomic */
    if (!monitor.is_armed || __atomic_load_n(&is_in_vain, __ATOMIC_RELAXED))
        return;
    for (int waited = 0; waited < LATE_DUMP_MS; waited++) {
        if (monitor_has_fault() || monitor_is_under_way())
            return;
        aside_sleep(1000);
    }
    __atomic_store_n(&is_in_vain, 1, __ATOMIC_RELAXED);
}
