/* The public functions, and what holds the rooms together: start, exit, and who tells whom. */
#include "cufence.h"

#include "base/output.h"
#include "base/thread.h"
#include "contexts/contexts.h"
#include "driver/driver.h"
#include "base/error.h"
#include "witness/delivery.h"
#include "witness/monitor.h"
#include "heap/heap.h"
#include "launch/launch.h"
#include "base/lock.h"
#include "base/options.h"
#include "preload/preload.h"
#include "stacks/labels.h"
#include "stacks/stack.h"
#include "vmm/arena.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define REPORT_MS 5000 /* that the process' end waits for a report under way */
#define DEBUGGER_REST_MS 500
#define STRING_(x) #x
#define STRING(x) STRING_(x)

static struct {
    struct lock lock;   /* held while starting */
    int is_started;     /* atomic */
    int is_forked;      /* atomic; this is a child of the process that was started */
    int removes_traces; /* at the exit; a start that is tried again does not ask for it twice */
    pid_t pid;          /* that started it: a forked child has no CUDA */
    char *text;         /* the options it was started with; NULL before */
    struct options options;
} process = {.lock = LOCK(RANK_PROCESS)};

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static size_t read_launches(int device, const char *kernel, int has_graphs, struct launch_entry *out, size_t max)
{
    const struct launch_query query = {.device = device, .kernel = kernel, .has_graphs = has_graphs};
    return launch_read(&query, out, max);
}

static const struct fault_sources sources = {.near = heap_near,
                                             .live = heap_live,
                                             .set_faulted = contexts_set_faulted,
                                             .is_shared = arena_is_shared,
                                             .arena_start = arena_start,
                                             .arena_end = arena_end,
                                             .now_ns = monotonic_ns,
                                             .launches = read_launches,
                                             .frames = stack_frames,
                                             .buffer_frames = stack_python_frames};

/* ---- the end of the process ---- */

static CUresult synchronise(const struct context *context)
{
    CUcontext popped;
    CUresult result = driver->cuCtxPushCurrent(context->handle);
    if (result == CUDA_SUCCESS) {
        result = driver->cuCtxSynchronize();
        driver->cuCtxPopCurrent(&popped);
    }
    return result;
}

static CUresult exit_result; /* written by the thread below, read only after it was joined */

static void *synchronise_all(void *unused)
{
    (void)unused;
    for (struct context *context = context_next(NULL); context; context = context_next(context)) {
        CUresult result = synchronise(context);
        if (result != CUDA_SUCCESS && !driver_has_faulted(exit_result)) /* nothing is worse */
            exit_result = result;
    }
    return NULL;
}

/* Work may still be running, and its faults are the program's as much as any. A kernel that never ends must not keep the
 * process: it is waited for as long as exit_wait says, once. Returns 1 if all work is done. */
static int wait_for_devices(void)
{
    static int is_in_vain;
    pthread_t thread;
    struct timespec until;
    if (is_in_vain || !process.options.exit_wait || thread_start(&thread, synchronise_all, NULL) != 0)
        return 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(process.options.exit_wait / 1000);
    until.tv_nsec += (long)(process.options.exit_wait % 1000) * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    if (pthread_timedjoin_np(thread, NULL, &until) == 0)
        return 1;
    output_say("cufence: the device was still working %llu ms after the program's end; a fault from now on is not reported\n",
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
    output_say(
        "cufence: %llu allocations, %llu of them mapped anew; at most %llu bytes live; %llu mappings retired; %llu faults\n",
        (unsigned long long)stats.allocations, (unsigned long long)stats.fresh_mappings,
        (unsigned long long)stats.peak_live_bytes, (unsigned long long)stats.retired_mappings,
        (unsigned long long)delivery_count());
}

static void remove_traces(int status, void *unused)
{
    (void)status;
    (void)unused;
    if (getpid() != process.pid)
        return;
    monitor_stop(0);
    output_flush();
}

/* Waits for all work and for the reports of its faults. Returns 1 if all work is done. */
static int wait_for_faults(void)
{
    if (!wait_for_devices())
        return 0;
    if (driver_has_faulted(exit_result))
        monitor_await_dump();
    monitor_flush(REPORT_MS);
    return 1;
}

/* Of the main thread, at its end: when the process exits from there, this runs before all exit handlers, also before those that
 * the driver's debugger library has registered since the fault, and which a dump under way does not survive. Without the
 * preload library those will run, and the debugger is given time to come to rest. */
static void before_exit(void *unused)
{
    (void)unused;
    if (getpid() == process.pid && wait_for_faults() && delivery_count() && !preload_is_there())
        usleep(DEBUGGER_REST_MS * 1000);
}

extern int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *object); /* of the C library */
extern char __dso_handle;

static void wait_before_exit(void)
{
    static int is_registered; /* by the main thread alone */
    if (gettid() != getpid() || is_registered)
        return;
    is_registered = 1;
    __cxa_thread_atexit_impl(before_exit, NULL, &__dso_handle);
}

static void at_exit(int status, void *unused)
{
    static int is_done; /* exit handlers run one after the other */
    (void)unused;
    if (getpid() != process.pid || is_done++)
        return;
    int is_synchronised = wait_for_faults();
    monitor_stop(is_synchronised ? REPORT_MS : 0);
    heap_close();
    int has_failed = is_synchronised && driver_has_faulted(exit_result);
    if (has_failed && !delivery_count()) {
        const char *name = "a kernel's exception";
        driver->cuGetErrorName(exit_result, &name);
        output_say("==%d== cufence: a kernel has faulted: %s; without a core dump there is no more to tell\n", (int)process.pid,
                   name);
    }
    if (process.options.verbose)
        print_stats();
    output_flush();
    /* The exit handlers that are left run with the new status. */
    if (status == 0 && process.options.exitcode && (delivery_count() || has_failed))
        exit((int)process.options.exitcode);
}

/* The handler is registered anew with each context, so that it runs before the driver's own: a driver that makes a context
 * after a reset registers one again. */
static void context_begun(struct context *context)
{
    on_exit(at_exit, NULL);
    wait_before_exit();
    monitor_add_context(context);
}

static void context_gone(struct context *context)
{
    monitor_forget_context(context);
    heap_context_gone(context);
    launch_forget_context(context);
}

/* CUDA does not survive a fork: in the child every call goes to the driver, which says so, and no lock of the parent's threads
 * is waited for. */
static void after_fork(void)
{
    preload_stop();
    contexts_close();
    __atomic_store_n(&process.is_started, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&process.is_forked, 1, __ATOMIC_RELEASE);
}

/* ---- start ---- */

/* Leaves nothing behind where it fails but the open driver library, so that it may be tried again. */
static cufence_status start(const char *options)
{
    options_default(&process.options);
    cufence_status status = options_parse(&process.options, getenv("CUFENCE_OPTIONS"), "CUFENCE_OPTIONS");
    if (status == CUFENCE_OK)
        status = options_parse(&process.options, options, "cufence_init");
    if (status == CUFENCE_OK)
        status = driver_load();
    if (status == CUFENCE_OK)
        status = monitor_start(&process.options, &sources);
    if (status != CUFENCE_OK)
        return status;
    /* A record with a native stack is four times as large, and has to stay in the processor's cache to be cheap. */
    launch_open(stack_has_python() ? process.options.launches : (process.options.launches + 3) / 4);
    static const struct context_events events = {context_begun, context_gone, heap_stream_ends};
    contexts_open(&events);
    status = heap_open(&process.options);
    if (status != CUFENCE_OK) {
        monitor_cancel();
        return status;
    }
    preload_configure(&process.options);
    wait_before_exit();
    if (!process.removes_traces)
        process.removes_traces = on_exit(remove_traces, NULL) == 0 && /* also where no context ever comes to be */
                                 pthread_atfork(NULL, NULL, after_fork) == 0;
    if (process.options.verbose)
        output_say("cufence %s: driver %s (CUDA %d.%d), %llu GiB of address space, core dumps %s\n", cufence_version_string(),
                   driver->path, driver->version / 1000, driver->version % 1000 / 10,
                   (unsigned long long)((arena_end() - arena_start()) >> 30), monitor_is_armed() ? "armed" : "not armed");
    return CUFENCE_OK;
}

static cufence_status refuse_child(void)
{
    return error_set(
        CUFENCE_ERROR_NOT_INITIALIZED,
        "this process was forked from one that uses CUDA, and a child cannot use it; start CUDA after the fork, or "
        "use another start method (spawn)");
}

PUBLIC cufence_status cufence_init(const char *options)
{
    cufence_status status;
    if (__atomic_load_n(&process.is_forked, __ATOMIC_ACQUIRE))
        return refuse_child();
    lock_take(&process.lock);
    if (process.is_started) {
        status = strcmp(process.text, options ? options : "") == 0
                     ? CUFENCE_OK
                     : error_set(CUFENCE_ERROR_ALREADY_INITIALIZED,
                                 "cufence runs with the options \"%s\" already; \"%s\" comes too late", process.text,
                                 options ? options : "");
    } else {
        process.text = strdup(options ? options : "");
        process.pid = getpid();
        status = process.text ? start(options) : error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
        if (status == CUFENCE_OK) {
            __atomic_store_n(&process.is_started, 1, __ATOMIC_RELEASE);
        } else {
            free(process.text);
            process.text = NULL;
        }
    }
    lock_release(&process.lock);
    return status;
}

PUBLIC cufence_status cufence_check_options(const char *options)
{
    struct options checked;
    options_default(&checked);
    return options_parse(&checked, options, "the options");
}

static cufence_status check_started(void)
{
    if (__atomic_load_n(&process.is_started, __ATOMIC_ACQUIRE))
        return CUFENCE_OK;
    if (__atomic_load_n(&process.is_forked, __ATOMIC_ACQUIRE))
        return refuse_child();
    return error_set(CUFENCE_ERROR_NOT_INITIALIZED, "cufence_init() has not been called, or has failed");
}

static cufence_status check_started_with(const void *pointer, const char *name)
{
    cufence_status status = check_started();
    if (status == CUFENCE_OK && !pointer)
        status = error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s is NULL", name);
    return status;
}

/* ---- the rest ---- */

PUBLIC int cufence_version(void)
{
    return CUFENCE_VERSION_MAJOR * 10000 + CUFENCE_VERSION_MINOR * 100 + CUFENCE_VERSION_PATCH;
}

PUBLIC const char *cufence_version_string(void)
{
    return STRING(CUFENCE_VERSION_MAJOR) "." STRING(CUFENCE_VERSION_MINOR) "." STRING(CUFENCE_VERSION_PATCH);
}

PUBLIC const char *cufence_strerror(cufence_status status)
{
    static const char *const texts[] = {
        [CUFENCE_OK] = "no error",
        [CUFENCE_ERROR_INVALID_ARGUMENT] = "an argument is not valid",
        [CUFENCE_ERROR_OPTION] = "an option is unknown or its value is not allowed",
        [CUFENCE_ERROR_NOT_INITIALIZED] = "cufence has not been started",
        [CUFENCE_ERROR_ALREADY_INITIALIZED] = "cufence runs already, with other options",
        [CUFENCE_ERROR_DRIVER_NOT_FOUND] = "the CUDA driver library was not found",
        [CUFENCE_ERROR_DRIVER_TOO_OLD] = "the CUDA driver is too old",
        [CUFENCE_ERROR_DRIVER] = "a call of the CUDA driver failed",
        [CUFENCE_ERROR_OUT_OF_MEMORY] = "out of memory",
        [CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE] = "out of address space",
        [CUFENCE_ERROR_OVERFLOW] = "a size is too large",
        [CUFENCE_ERROR_INVALID_FREE] = "not the start of a buffer",
        [CUFENCE_ERROR_DOUBLE_FREE] = "the buffer has been freed before",
        [CUFENCE_ERROR_NOT_FOUND] = "not found",
        [CUFENCE_ERROR_FAULTED] = "a kernel has faulted",
        [CUFENCE_ERROR_SYSTEM] = "a system call failed",
        [CUFENCE_ERROR_CORRUPT] = "a damaged core dump",
        [CUFENCE_ERROR_UNSUPPORTED] = "not supported here",
        [CUFENCE_ERROR_TIMEOUT] = "the time has passed",
    };
    size_t index = (size_t)status;
    return index < sizeof texts / sizeof *texts && texts[index] ? texts[index] : "unknown status";
}

PUBLIC const char *cufence_error_detail(void)
{
    return error_detail();
}

static struct context *context_for(int device, cufence_status *status)
{
    if (device >= 0)
        return context_of_device(device, status);
    struct context *context = device == -1 ? context_current() : NULL;
    if (device < -1)
        *status = error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "there is no device %d; -1 means the current context's", device);
    else if (!context)
        *status =
            error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the calling thread has no current CUDA context; name a device from 0");
    return context;
}

static cufence_status unknown_stream(cufence_stream stream)
{
    return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the driver does not know stream %p", (void *)stream);
}

PUBLIC cufence_status cufence_malloc(void **pointer, size_t size, int device, cufence_stream stream)
{
    cufence_status status = check_started_with(pointer, "pointer");
    struct context *context = status == CUFENCE_OK ? context_for(device, &status) : NULL;
    if (!context)
        return status;
    struct stream *meant = stream_in(context, stream);
    const struct heap_request wanted = {.size = size, .context = context, .device = context->device, .stream = meant};
    return meant ? heap_allocate(pointer, &wanted, NULL) : unknown_stream(stream);
}

/* A default stream is the caller's, and, since a caller may not have made the buffer's context current, that context's too. */
PUBLIC cufence_status cufence_free(void *pointer, cufence_stream stream)
{
    struct heap_claim claim;
    cufence_status status = check_started();
    if (status != CUFENCE_OK || !pointer)
        return status;
    status = heap_claim(pointer, &claim);
    if (status != CUFENCE_OK)
        return status;
    struct stream *meant = stream_resolve(stream);
    if (stream_is_default(stream) && (!meant || meant->context != claim.context)) {
        struct stream *own = stream_in(claim.context, stream);
        if (meant && own)
            heap_claim_record(&claim, own);
        meant = meant ? meant : own;
    }
    heap_free(&claim, meant, meant ? HEAP_STREAM : HEAP_UNKNOWN, NULL);
    return CUFENCE_OK;
}

PUBLIC cufence_status cufence_stream_gone(cufence_stream stream)
{
    cufence_status status = check_started();
    if (status == CUFENCE_OK)
        stream_ended(stream);
    return status;
}

PUBLIC cufence_status cufence_record_stream(void *pointer, cufence_stream stream)
{
    cufence_status status = check_started();
    return status == CUFENCE_OK ? heap_record_stream(pointer, stream) : status;
}

PUBLIC cufence_status cufence_label_push(const char *label)
{
    return label_push(label);
}

PUBLIC cufence_status cufence_label_pop(void)
{
    return label_pop();
}

PUBLIC cufence_status cufence_describe(const void *address, cufence_description *description)
{
    cufence_status status = check_started_with(description, "description");
    if (status == CUFENCE_OK)
        heap_describe((uint64_t)(uintptr_t)address, description);
    return status;
}

PUBLIC cufence_status cufence_get_stats(int device, cufence_stats *stats)
{
    cufence_status status = check_started_with(stats, "stats");
    if (status == CUFENCE_OK)
        status = heap_stats(device, stats);
    if (status == CUFENCE_OK)
        stats->faults = delivery_count();
    return status;
}

PUBLIC cufence_status cufence_trim(int device)
{
    cufence_status status = check_started();
    return status == CUFENCE_OK ? heap_trim(device, 1) : status;
}

PUBLIC cufence_status cufence_set_fault_handler(cufence_fault_handler handler, void *user)
{
    delivery_set_handler(handler, user);
    return CUFENCE_OK;
}

PUBLIC uint64_t cufence_fault_count(void)
{
    return delivery_count();
}

PUBLIC size_t cufence_stack(uint32_t stack, char *buffer, size_t size)
{
    struct stack_frame frames[STACK_READ];
    size_t count = stack_python_frames(stack, frames, STACK_READ), at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t room = at < size ? size - at : 0;
        int length =
            snprintf(room ? buffer + at : NULL, room, "%s:%d in %s\n", frames[i].file, frames[i].line, frames[i].function);
        at += length > 0 ? (size_t)length : 0;
    }
    return count ? at + 1 : 0;
}

PUBLIC size_t cufence_last_report(char *buffer, size_t size)
{
    return delivery_last_text(buffer, size);
}

PUBLIC size_t cufence_last_report_json(char *buffer, size_t size)
{
    return delivery_last_json(buffer, size);
}

PUBLIC cufence_status cufence_wait_reports(unsigned timeout_ms)
{
    cufence_status status = check_started();
    return status == CUFENCE_OK ? monitor_flush(timeout_ms) : status;
}

PUBLIC cufence_status cufence_pool_begin(int device, const uint64_t id[2], cufence_pool_filter contains, void *user,
                                         void (*destroy)(void *user))
{
    cufence_status status = check_started_with(id, "id");
    return status == CUFENCE_OK ? pool_begin(device, id, contains, user, destroy) : status;
}

PUBLIC cufence_status cufence_pool_end(int device, const uint64_t id[2])
{
    cufence_status status = check_started_with(id, "id");
    return status == CUFENCE_OK ? pool_end(device, id) : status;
}

PUBLIC cufence_status cufence_pool_release(int device, const uint64_t id[2])
{
    cufence_status status = check_started_with(id, "id");
    return status == CUFENCE_OK ? pool_release(device, id) : status;
}
