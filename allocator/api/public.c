/* The public API. Contracts are in include/cufence.h. */
#include "cufence.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "base/lost_reports.h"
#include "contexts/contexts.h"
#include "heap/heap.h"
#include "heap/slack/poison.h"
#include "heap/unguarded/unguarded.h"
#include "launch/inspect_table.h"
#include "lifecycle.h"
#include "order/order.h"
#include "stacks/labels.h"
#include "stacks/stack.h"
#include "fault/delivery.h"
#include "fault/monitor.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK_MS 10000 /* the most that cufence_check() waits for its own kernels, after the synchronisation */
#define PUBLIC __attribute__((visibility("default")))

struct given {
    const char *options;
    cufence_status status;
};

static void start(void *argument)
{
    struct given *given = argument;
    given->status = lifecycle_start(given->options);
}

PUBLIC cufence_status cufence_init(const char *options)
{
    struct given given = {.options = options};
    aside_call(start, &given);
    return given.status;
}

static void check_options(void *argument)
{
    struct given *given = argument;
    struct options checked;
    options_default(&checked);
    given->status = options_parse(&checked, given->options, "the options");
}

PUBLIC cufence_status cufence_check_options(const char *options)
{
    struct given given = {.options = options};
    aside_call(check_options, &given);
    return given.status;
}

static cufence_status check_started_with(const void *pointer, const char *name)
{
    cufence_status status = lifecycle_check();
    if (status == CUFENCE_OK && !pointer)
        status = error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s is NULL", name);
    return status;
}

PUBLIC int cufence_version(void)
{
    return CUFENCE_VERSION_MAJOR * 10000 + CUFENCE_VERSION_MINOR * 100 + CUFENCE_VERSION_PATCH;
}

PUBLIC const char *cufence_version_string(void)
{
    return VERSION_TEXT;
}

PUBLIC const char *cufence_strerror(cufence_status status)
{
    static const char *const texts[] = {
        [CUFENCE_OK] = "no error",
        [CUFENCE_ERROR_INVALID_ARGUMENT] = "an argument is not valid",
        [CUFENCE_ERROR_OPTION] = "an option is unknown or its value is not allowed",
        [CUFENCE_ERROR_NOT_INITIALIZED] = "cufence has not been started",
        [CUFENCE_ERROR_ALREADY_INITIALIZED] = "cufence already runs with other options",
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
        [CUFENCE_ERROR_TIMEOUT] = "timed out",
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
    return meant ? passed_or_guarded(pointer, &wanted, __builtin_frame_address(0)) : unknown_stream(stream);
}

/* A default stream means that of the caller's current context. The buffer's context need not be current, so its default stream
 * is waited for too. */
PUBLIC cufence_status cufence_free(void *pointer, cufence_stream stream)
{
    struct heap_claim claim;
    struct heap_range range;
    cufence_status status = lifecycle_check();
    if (status != CUFENCE_OK || !pointer)
        return status;
    if (!heap_owns((uint64_t)(uintptr_t)pointer))
        return passed_free(pointer, NULL, stream) ? CUFENCE_OK : heap_refuse_free(pointer, &claim.where);
    status = heap_claim(pointer, &claim);
    if (status != CUFENCE_OK)
        return status;
    struct stream *meant = stream_resolve(stream);
    if (order_is_wanted()) {
        heap_claimed(&claim, &range);
        order_free("cufence_free", __builtin_frame_address(0), &range, meant);
    }
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
    cufence_status status = lifecycle_check();
    if (status == CUFENCE_OK)
        stream_ended(stream);
    return status;
}

/* Forgets the context unless work may still be running in it: then its buffers must stay mapped. */
static cufence_status give_up(CUcontext context)
{
    struct books *held;
    CUresult result = settle_before_end(context, &held);
    int is_over = result == CUDA_SUCCESS || driver_has_faulted(result) || result == CUDA_ERROR_INVALID_CONTEXT ||
                  result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (is_over)
        context_given_up(context);
    heap_go_on(held);
    return is_over ? CUFENCE_OK : driver_check(result, "cuCtxSynchronize");
}

/* The preload library sees the end itself. */
PUBLIC cufence_status cufence_context_gone(cufence_context context)
{
    cufence_status status = check_started_with(context, "context");
    if (status != CUFENCE_OK || contexts_are_watched() || !context_known(context))
        return status;
    return give_up(context);
}

PUBLIC cufence_status cufence_record_stream(void *pointer, cufence_stream stream)
{
    cufence_status status = lifecycle_check();
    if (status != CUFENCE_OK || passed_record(pointer, stream))
        return status;
    status = heap_record_stream(pointer, stream);
    if (status == CUFENCE_OK && order_is_wanted())
        order_recorded((uint64_t)(uintptr_t)pointer, stream);
    return status;
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
    for (int why = PASSED_NOT + 1; why < PASSED_REASONS && status == CUFENCE_OK; why++) {
        struct passed_figures figures = passed_figures((enum passed_reason)why);
        stats->unguarded_allocations += figures.count;
        stats->unguarded_bytes += figures.bytes;
    }
    return status;
}

PUBLIC size_t cufence_get_mappings(int device, cufence_mapping *out, size_t max)
{
    cufence_mapping *all = NULL;
    size_t count = lifecycle_check() == CUFENCE_OK ? heap_mappings(device, &all) : 0;
    for (size_t i = 0; i < count && i < max; i++)
        out[i] = all[i];
    free(all);
    return count;
}

struct on_device {
    int device;
    cufence_status status;
    size_t found;
};

static struct on_device run_on(int device, void (*function)(void *))
{
    struct on_device on = {.device = device, .status = lifecycle_check()};
    if (on.status == CUFENCE_OK)
        aside_call(function, &on);
    return on;
}

PUBLIC size_t cufence_get_unguarded(cufence_unguarded *out, size_t max)
{
    size_t count = 0;
    for (int why = PASSED_NOT + 1; why < PASSED_REASONS; why++) {
        struct passed_figures figures = passed_figures((enum passed_reason)why);
        if (!figures.count)
            continue;
        if (count < max)
            out[count] = (cufence_unguarded){passed_word((enum passed_reason)why), figures.count, figures.bytes,
                                             figures.live_count, figures.live_bytes};
        count++;
    }
    return count;
}

static void trim(void *argument)
{
    struct on_device *on = argument;
    on->status = heap_trim(on->device, WAITS_FOR_POOLS);
}

PUBLIC cufence_status cufence_trim(int device)
{
    return run_on(device, trim).status;
}

static void check_slack(void *argument)
{
    struct on_device *on = argument;
    if (delivery_is_in_handler()) {
        on->status = error_set(CUFENCE_ERROR_UNSUPPORTED, "a fault handler cannot check buffers: the device may be stopped");
        return;
    }
    on->status = heap_check_slack(on->device, 1, CHECK_MS, &on->found);
    if (on->status == CUFENCE_OK && !untold_await(monotonic_ms() + CHECK_MS))
        on->status = error_set(CUFENCE_ERROR_TIMEOUT, "a finding is still being reported by another thread");
}

PUBLIC int cufence_check(int device)
{
    const struct on_device on = run_on(device, check_slack);
    return on.status == CUFENCE_OK ? (int)(on.found < INT_MAX ? on.found : INT_MAX) : -(int)on.status;
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

/* Returns the length of the line, as snprintf() does. */
static int put_frame(char *out, size_t size, const struct stack_frame *frame)
{
    if (frame->file[0] || !frame->module[0])
        return snprintf(out, size, "%s:%d in %s\n", frame->file, frame->line, frame->function);
    return snprintf(out, size, "%s%s(%s+0x%llx)\n", frame->function, frame->function[0] ? " " : "", frame->module,
                    (unsigned long long)frame->offset);
}

struct writing {
    uint32_t stack;
    char *buffer;
    size_t size, length;
};

static void write_stack(void *argument)
{
    struct writing *writing = argument;
    struct stack_frame frames[STACK_READ];
    size_t count = stack_interned_frames(writing->stack, frames, STACK_READ), at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t room = at < writing->size ? writing->size - at : 0;
        int length = put_frame(room ? writing->buffer + at : NULL, room, &frames[i]);
        at += length > 0 ? (size_t)length : 0;
    }
    writing->length = count ? at + 1 : 0;
}

PUBLIC size_t cufence_stack(uint32_t stack, char *buffer, size_t size)
{
    struct writing writing = {stack, buffer, size, 0};
    aside_call(write_stack, &writing);
    return writing.length;
}

PUBLIC size_t cufence_last_report(char *buffer, size_t size)
{
    return delivery_last_text(buffer, size);
}

PUBLIC size_t cufence_last_report_json(char *buffer, size_t size)
{
    return delivery_last_json(buffer, size);
}

struct patience {
    unsigned ms;
    cufence_status status;
};

static void wait_reports(void *argument)
{
    struct patience *patience = argument;
    uint64_t until = monotonic_ms() + patience->ms, now;
    patience->status = monitor_flush(patience->ms);
    if (patience->status == CUFENCE_OK && inspector_now() &&
        !inspector_now()->await((now = monotonic_ms()) < until ? (unsigned)(until - now) : 0))
        patience->status =
            error_set(CUFENCE_ERROR_TIMEOUT, "results of launches were still being looked at after %u ms", patience->ms);
}

PUBLIC cufence_status cufence_wait_reports(unsigned timeout_ms)
{
    struct patience patience = {timeout_ms, lifecycle_check()};
    if (patience.status == CUFENCE_OK)
        aside_call(wait_reports, &patience);
    return patience.status;
}

PUBLIC cufence_status cufence_pool_begin(int device, const uint64_t id[2], cufence_pool_filter contains, void *user,
                                         void (*destroy)(void *user))
{
    return check_started_with(id, "id") ?: pool_begin(device, id, contains, user, destroy);
}

PUBLIC cufence_status cufence_pool_end(int device, const uint64_t id[2])
{
    return check_started_with(id, "id") ?: pool_end(device, id);
}

PUBLIC cufence_status cufence_pool_release(int device, const uint64_t id[2])
{
    return check_started_with(id, "id") ?: pool_request(device, id, POOL_RELEASE, NULL);
}

/* ---- poison ---- */

static cufence_status poison(const void *start, size_t bytes, CUstream stream, __typeof__(&poison_begin) begin_or_end)
{
    struct heap_range range;
    cufence_status status = lifecycle_check();
    uint64_t address = (uint64_t)(uintptr_t)start;
    if (status == CUFENCE_OK && (!bytes || !heap_range_of(address, &range) || bytes > range.address + range.size - address))
        status = error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
                           "%zu bytes from %p on are not in one live buffer that cufence guards", bytes, start);
    return status ?: begin_or_end(&range, address, bytes, stream, slack_last_launch());
}

PUBLIC cufence_status cufence_poison(const void *start, size_t bytes, cufence_stream stream)
{
    return poison(start, bytes, stream, poison_begin);
}

PUBLIC cufence_status cufence_unpoison(const void *start, size_t bytes, cufence_stream stream)
{
    return poison(start, bytes, stream, poison_end);
}
