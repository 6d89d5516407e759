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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_MS 10000 /* the most that cufence_check() waits for its own kernels, after the synchronisation */
#define PUBLIC __attribute__((visibility("default")))
#define LARGEST_STRUCT 4096 /* a larger struct_size was never set */

/* What a function is given and finds that runs aside. */
struct call {
    const char *options;
    int device;
    unsigned ms;
    size_t found;
    cufence_status status;
};

static cufence_status run(struct call *call, void (*function)(void *))
{
    aside_call(function, call);
    return call->status;
}

static void start(void *argument)
{
    struct call *call = argument;
    call->status = lifecycle_start(call->options);
}

PUBLIC cufence_status cufence_init(const char *options)
{
    return run(&(struct call){.options = options}, start);
}

static void check_options(void *argument)
{
    struct call *call = argument;
    struct options checked;
    options_default(&checked);
    call->status = options_parse(&checked, call->options, "the options");
}

PUBLIC cufence_status cufence_check_options(const char *options)
{
    return run(&(struct call){.options = options}, check_options);
}

static cufence_status check_pointer(const void *pointer, const char *name)
{
    return pointer ? CUFENCE_OK : error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s is NULL", name);
}

static cufence_status check_started_with(const void *pointer, const char *name)
{
    return lifecycle_check() ?: check_pointer(pointer, name);
}

/* ---- structs and texts that the caller gives room for ---- */

static cufence_status check_struct(const void *out, const char *name)
{
    const size_t room = out ? *(const size_t *)out : 0;
    if (!out || (room >= sizeof room && room <= LARGEST_STRUCT))
        return check_pointer(out, name);
    return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%s: struct_size is %zu; set it to the sizeof of the struct", name, room);
}

static cufence_status check_array(const void *out, const size_t *count)
{
    return check_pointer(count, "count") ?: *count ? check_struct(out, "the first entry") : CUFENCE_OK;
}

/* Fills in the struct at `index` of the caller's, which are all as large as the first. */
static void fill(void *structs, size_t index, const void *own, size_t size)
{
    const size_t room = *(const size_t *)structs;
    char *out = (char *)structs + index * room;
    memset(out, 0, room);
    memcpy(out, own, room < size ? room : size);
    *(size_t *)(void *)out = room;
}

static cufence_status check_text(const char *text, const size_t *size)
{
    return check_pointer(size, "size") ?: *size ? check_pointer(text, "text") : CUFENCE_OK;
}

static cufence_status text_of(size_t length, size_t *size, const char *missing)
{
    if (!length)
        return error_set(CUFENCE_ERROR_NOT_FOUND, "%s", missing);
    *size = length;
    return CUFENCE_OK;
}

PUBLIC int cufence_version(void)
{
    return CUFENCE_VERSION;
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

PUBLIC cufence_status cufence_malloc(void **pointer, size_t size, int device, cufence_stream stream)
{
    cufence_status status = check_started_with(pointer, "pointer");
    struct context *context = status == CUFENCE_OK ? context_for(device, &status) : NULL;
    if (!context)
        return status;
    struct stream *meant = stream_in(context, stream);
    const struct heap_request wanted = {.size = size, .context = context, .device = context->device, .stream = meant};
    if (!meant)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the driver does not know stream %p", (void *)stream);
    return passed_or_guarded(pointer, &wanted, __builtin_frame_address(0));
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
        if (meant && (!own || heap_claim_record(&claim, own) != CUFENCE_OK))
            meant = NULL; /* the host has no memory to note both */
        else
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

/* The preload library sees the end itself. Work may still be running in the context if the driver cannot wait for it: then its
 * buffers must stay mapped. */
PUBLIC cufence_status cufence_context_gone(cufence_context context)
{
    struct books *held;
    cufence_status status = check_started_with(context, "context");
    if (status != CUFENCE_OK || contexts_are_watched() || !context_known(context))
        return status;
    CUresult result = settle_before_end(context, &held);
    int is_over = result == CUDA_SUCCESS || driver_has_faulted(result) || result == CUDA_ERROR_INVALID_CONTEXT ||
                  result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (is_over)
        context_given_up(context);
    heap_go_on(held);
    return is_over ? CUFENCE_OK : driver_check(result, "cuCtxSynchronize");
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
    cufence_description found;
    cufence_status status = lifecycle_check() ?: check_struct(description, "description");
    if (status != CUFENCE_OK)
        return status;
    heap_describe((uint64_t)(uintptr_t)address, &found);
    fill(description, 0, &found, sizeof found);
    return CUFENCE_OK;
}

PUBLIC cufence_status cufence_get_stats(int device, cufence_stats *stats)
{
    cufence_stats all;
    cufence_status status = lifecycle_check() ?: check_struct(stats, "stats") ?: heap_stats(device, &all);
    if (status != CUFENCE_OK)
        return status;
    const struct passed_figures passed = passed_sums();
    all.faults = delivery_count();
    all.unguarded_allocations = passed.count;
    all.unguarded_bytes = passed.bytes;
    fill(stats, 0, &all, sizeof all);
    return CUFENCE_OK;
}

PUBLIC cufence_status cufence_get_mappings(int device, cufence_mapping *out, size_t *count)
{
    cufence_mapping *all = NULL;
    size_t found = 0;
    cufence_status status =
        lifecycle_check() ?: check_array(out, count) ?: heap_check_device(device) ?: heap_mappings(device, &all, &found);
    if (status != CUFENCE_OK)
        return status;
    for (size_t i = 0; i < found && i < *count; i++)
        fill(out, i, &all[i], sizeof all[i]);
    free(all);
    *count = found;
    return CUFENCE_OK;
}

PUBLIC cufence_status cufence_get_unguarded(cufence_unguarded *out, size_t *count)
{
    size_t found = 0;
    cufence_status status = check_array(out, count);
    if (status != CUFENCE_OK)
        return status;
    for (int why = PASSED_NOT + 1; why < PASSED_REASONS; why++) {
        struct passed_figures figures = passed_figures((enum passed_reason)why);
        const cufence_unguarded one = {.what = passed_word((enum passed_reason)why),
                                       .allocations = figures.count,
                                       .bytes = figures.bytes,
                                       .live_buffers = figures.live_count,
                                       .live_bytes = figures.live_bytes};
        if (figures.count && found++ < *count)
            fill(out, found - 1, &one, sizeof one);
    }
    *count = found;
    return CUFENCE_OK;
}

static void trim(void *argument)
{
    struct call *call = argument;
    call->status = lifecycle_check() ?: heap_trim(call->device, WAITS_FOR_POOLS);
}

PUBLIC cufence_status cufence_trim(int device)
{
    return run(&(struct call){.device = device}, trim);
}

static void check_slack(void *argument)
{
    struct call *call = argument;
    call->status = lifecycle_check();
    if (call->status == CUFENCE_OK && delivery_is_in_handler())
        call->status = error_set(CUFENCE_ERROR_UNSUPPORTED, "a fault handler cannot check buffers: the device may be stopped");
    call->status = call->status ?: heap_check_slack(call->device, 1, CHECK_MS, &call->found);
    if (call->status == CUFENCE_OK && !untold_await(monotonic_ms() + CHECK_MS))
        call->status = error_set(CUFENCE_ERROR_TIMEOUT, "a finding is still being reported by another thread");
}

PUBLIC cufence_status cufence_check(int device, uint64_t *findings)
{
    struct call call = {.device = device};
    cufence_status status = run(&call, check_slack);
    if (status == CUFENCE_OK && findings)
        *findings = call.found;
    return status;
}

PUBLIC void cufence_set_fault_handler(cufence_fault_handler handler, void *user)
{
    delivery_set_handler(handler, user);
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

PUBLIC cufence_status cufence_stack(uint32_t stack, char *text, size_t *size)
{
    cufence_status status = check_text(text, size);
    if (status != CUFENCE_OK)
        return status;
    struct writing writing = {stack, text, *size, 0};
    aside_call(write_stack, &writing);
    return text_of(writing.length, size, "no frames are known of this stack");
}

PUBLIC cufence_status cufence_last_report(char *text, size_t *size)
{
    return check_text(text, size) ?: text_of(delivery_last_text(text, *size), size, "there was no fault yet");
}

PUBLIC cufence_status cufence_last_report_json(char *text, size_t *size)
{
    return check_text(text, size) ?: text_of(delivery_last_json(text, *size), size, "there was no fault yet");
}

static void wait_reports(void *argument)
{
    struct call *call = argument;
    uint64_t until = monotonic_ms() + call->ms, now;
    call->status = lifecycle_check() ?: monitor_flush(call->ms);
    if (call->status == CUFENCE_OK && inspector_now() &&
        !inspector_now()->await((now = monotonic_ms()) < until ? (unsigned)(until - now) : 0))
        call->status = error_set(CUFENCE_ERROR_TIMEOUT, "results of launches were still being looked at after %u ms", call->ms);
}

PUBLIC cufence_status cufence_wait_reports(unsigned timeout_ms)
{
    return run(&(struct call){.ms = timeout_ms}, wait_reports);
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
