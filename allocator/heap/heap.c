#include "internal.h"

#include "error.h"
#include "guard/layout.h"
#include "stacks/labels.h"
#include "stacks/stack.h"
#include "vmm/physical.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RECORDED_MOST 1024u

const struct options *heap_options;

uint64_t heap_granularity = 2ull << 20;

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Ids in the order of a thread's allocations; threads take them a few at a time, so as not to wait for each other's line. */
static uint64_t take_id(void)
{
    enum { AT_ONCE = 16 };
    static _Alignas(CACHE_LINE) uint64_t given[CACHE_LINE / sizeof(uint64_t)]; /* atomic; a line of its own */
    static HOT_TLS uint64_t next, end;
    if (next == end) {
        next = __atomic_fetch_add(&given[0], AT_ONCE, __ATOMIC_RELAXED);
        end = next + AT_ONCE;
    }
    return ++next;
}

static uint32_t thread_id(void)
{
    static HOT_TLS uint32_t id;
    if (!id)
        id = (uint32_t)gettid();
    return id;
}

/* Where in Python this is called from. */
static uint32_t python_stack(void)
{
    return heap_options->stacks ? stack_capture_python() : 0;
}

/* The arena drops a slot of the past. */
static void forget(struct slot *slot)
{
    struct block *block = (struct block *)slot;
    pthread_spin_destroy(&block->recorded_lock);
    free(block);
}

void heap_share(int device, int peer)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    int can = 0;
    if (!arena_is_shared(device, peer) && driver->cuDeviceCanAccessPeer &&
        driver->cuDeviceCanAccessPeer(&can, peer, device) == CUDA_SUCCESS && can) {
        driver->cuThreadExchangeStreamCaptureMode(&mode);
        arena_share(device, peer);
        driver->cuThreadExchangeStreamCaptureMode(&mode);
    }
}

static void share_everything(void)
{
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    for (int device = 0; device < devices; device++) {
        for (int peer = 0; peer < devices; peer++)
            heap_share(device, peer);
    }
}

cufence_status heap_open(const struct options *options, void (*on_context)(CUcontext context, int device))
{
    heap_options = options;
    context_set_hook(on_context);
    physical_configure(options->cache_max);
    cufence_status status = arena_open(options->arena, options->history, forget);
    if (status != CUFENCE_OK)
        return status;
    status = index_open();
    if (status != CUFENCE_OK)
        goto no_index;
    status = worker_start();
    if (status != CUFENCE_OK)
        goto no_worker;
    if (options->peers == PEERS_ON)
        share_everything();
    return CUFENCE_OK;

no_worker:
    index_close();
no_index:
    arena_close();
    return status;
}

void heap_close(void)
{
    worker_stop();
}

/* Says what holds the memory, because "out of memory" alone helps nobody. */
static cufence_status out_of_memory(struct heap_context *context, uint64_t size, uint64_t mapped)
{
    cufence_stats stats = {0};
    cufence_buffer newest[1];
    uint64_t total = 0;
    size_t free_bytes = 0, all_bytes = 0;
    char largest[96] = "";
    heap_stats(context->device, &stats);
    driver->cuMemGetInfo(&free_bytes, &all_bytes);
    if (heap_live(context->device, newest, 1, &total) > 0)
        snprintf(largest, sizeof largest, "; the newest is #%llu of %llu bytes", (unsigned long long)newest[0].id,
                 (unsigned long long)newest[0].size);
    return error_set(
        CUFENCE_ERROR_OUT_OF_MEMORY,
        "no memory for %llu bytes (%llu with its mapping) on device %d: %zu of %zu bytes are free; %llu live buffers "
        "ask for %llu bytes and map %llu, of which graphs hold %llu%s. A buffer takes whole pages of 2 MiB",
        (unsigned long long)size, (unsigned long long)mapped, context->device, free_bytes, all_bytes,
        (unsigned long long)stats.live_buffers, (unsigned long long)stats.live_bytes, (unsigned long long)stats.mapped_bytes,
        (unsigned long long)stats.captured_bytes, largest);
}

/* A block with a mapping of its own, fresh from the arena; memory that is kept for reuse is given up for it if need be. */
static struct block *block_map(struct heap_context *context, const struct layout *layout, uint64_t size, int is_captured,
                               cufence_status *status)
{
    struct block *block = line_alloc(sizeof *block);
    if (!block) {
        *status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for the books of a buffer");
        return NULL;
    }
    block->context = context;
    block->pages = layout->pages & ((1u << 24) - 1); /* 32 TiB; an arena is 64 at most */
    pthread_spin_init(&block->recorded_lock, PTHREAD_PROCESS_PRIVATE);
    int hardest = is_captured ? 1 : 2; /* a synchronisation would end the capture */
    *status = slot_cut(&block->slot, context->device, layout->mapped, layout->guard);
    for (int level = 1; *status == CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE && level <= hardest; level++) {
        reclaim(context, level);
        *status = slot_cut(&block->slot, context->device, layout->mapped, layout->guard);
    }
    if (*status != CUFENCE_OK) {
        pthread_spin_destroy(&block->recorded_lock);
        free(block);
        return NULL;
    }
    *status = slot_map(&block->slot);
    for (int level = 0; *status == CUFENCE_ERROR_OUT_OF_MEMORY && level <= hardest; level++) {
        reclaim(context, level);
        *status = slot_map(&block->slot);
    }
    if (*status != CUFENCE_OK) {
        slot_abandon(&block->slot); /* the block belongs to the arena's books now */
        if (*status == CUFENCE_ERROR_OUT_OF_MEMORY)
            *status = out_of_memory(context, size, layout->mapped);
        return NULL;
    }
    uint64_t all = __atomic_add_fetch(&context->mapped_bytes, layout->mapped, __ATOMIC_RELAXED);
    uint64_t peak = __atomic_load_n(&context->peak_mapped_bytes, __ATOMIC_RELAXED);
    while (all > peak &&
           !__atomic_compare_exchange_n(&context->peak_mapped_bytes, &peak, all, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    __atomic_add_fetch(&context->fresh, 1, __ATOMIC_RELAXED);
    return block;
}

void block_unmap(struct block *block)
{
    struct heap_context *context = block->context;
    __atomic_sub_fetch(&context->mapped_bytes, block->slot.mapped, __ATOMIC_RELAXED);
    if (block->pool)
        pool_join(block, NULL);
    __atomic_add_fetch(&context->retired, 1, __ATOMIC_RELAXED);
    slot_unmap(&block->slot);
}

/* Nothing idle on the stream itself: what has become idle meanwhile, what other streams have left behind them, a mapping. */
static struct block *obtain(struct freelist *list, const struct layout *layout, uint64_t size, cufence_status *status)
{
    struct heap_context *context = list->context;
    struct scope scope = scope_enter(context);
    freelist_advance(list);
    struct block *block = freelist_take(list, layout->pages, heap_options->waste, size);
    if (block)
        goto done;
    if (!list->pool) {
        struct freelist *other = __atomic_load_n(&context->freelists, __ATOMIC_ACQUIRE);
        for (; !block && other; other = other->next) {
            if (other != list && !other->pool)
                block = freelist_take_passed(other, layout->pages, heap_options->waste);
        }
    }
    if (!block)
        block = block_map(context, layout, size, list->pool != NULL, status);
    if (block)
        freelist_count(list, size);
done:
    scope_leave(scope);
    return block;
}

/* For people: what is no stream is 0. */
static uint64_t stream_number(CUstream stream)
{
    return stream == HEAP_SYNCHRONISED || stream == HEAP_UNORDERED ? 0 : (uint64_t)(uintptr_t)stream;
}

/* The option's alignment, or what the buffer needs if that is more. 0: align=auto is enough. */
static uint64_t align_of(const struct heap_request *wanted)
{
    uint64_t align = heap_options->align;
    return wanted->align > (align ? align : layout_auto_align(wanted->size)) ? wanted->align : align;
}

cufence_status heap_allocate(void **pointer, const struct heap_request *wanted, uint64_t *mapped)
{
    cufence_status status = CUFENCE_OK;
    size_t size = wanted->size;
    CUstream stream = wanted->stream;
    struct heap_context *context = context_for(wanted->device, &status);
    if (!context)
        return status;
    if (__atomic_load_n(&context->is_faulted, __ATOMIC_RELAXED))
        return error_set(CUFENCE_ERROR_FAULTED,
                         "a kernel has faulted on device %d before; the report tells which (on_fault=continue "
                         "goes on in spite of it)",
                         context->device);
    if (size == 0) {
        *pointer = NULL;
        return CUFENCE_OK;
    }
    uint64_t id = take_id();
    enum layout_side side =
        heap_options->side == SIDE_START || (heap_options->side == SIDE_ALTERNATE && id % 2) ? LAYOUT_START : LAYOUT_END;
    struct layout_request request = {.size = size,
                                     .align = align_of(wanted),
                                     .side = side,
                                     .granularity = heap_granularity,
                                     .guard_min = heap_options->guard,
                                     .guard_max = heap_options->guard_max};
    struct layout layout;
    status = layout_compute(&request, &layout);
    if (status != CUFENCE_OK)
        return status;

    struct pool *pool = pool_of(context, stream);
    struct freelist *list = freelist_for(context, stream, pool);
    if (!list)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for the books of a stream");
    struct block *block = freelist_take(list, layout.pages, heap_options->waste, size);
    if (!block && !(block = obtain(list, &layout, size, &status)))
        return status;
    if (block->pool != pool)
        pool_join(block, pool);
    block->owner = wanted->owner;
    if (mapped)
        *mapped = block->slot.mapped;

    struct facts facts = {.id = id,
                          .address = block->slot.base + layout_offset(block->slot.mapped, size, layout.align, side),
                          .size = size,
                          .stream = stream_number(stream),
                          .allocated_ns = now_ns(),
                          .who = thread_id(),
                          .label = facts_label(label_current(), python_stack())};
    facts_write(block, &facts);
    *pointer = (void *)(uintptr_t)facts.address; /* before it is in the index: from then on another thread may free it */
    index_add(block);
    return CUFENCE_OK;
}

/* No live buffer starts at `address`: says what is there instead. */
static cufence_status refuse_free(uint64_t address)
{
    cufence_description description;
    heap_describe_free(address, &description);
    const cufence_buffer *buffer = &description.buffer;
    if (description.place == CUFENCE_PLACE_FREED && buffer->address == address)
        return error_set(CUFENCE_ERROR_DOUBLE_FREE, "0x%llx was buffer #%llu of %llu bytes, which thread %llu has freed",
                         (unsigned long long)address, (unsigned long long)buffer->id, (unsigned long long)buffer->size,
                         (unsigned long long)buffer->freed_tid);
    if (description.place == CUFENCE_PLACE_INSIDE)
        return error_set(CUFENCE_ERROR_INVALID_FREE, "0x%llx lies %llu bytes inside buffer #%llu, which starts at 0x%llx",
                         (unsigned long long)address, (unsigned long long)description.offset, (unsigned long long)buffer->id,
                         (unsigned long long)buffer->address);
    return error_set(CUFENCE_ERROR_INVALID_FREE, "0x%llx was not allocated by cufence", (unsigned long long)address);
}

/* Records an event on every stream that may still use the block. Returns how many are missing. Expects an entered scope. */
static uint32_t record_events(struct block *block, CUstream own, const CUstream *recorded, uint32_t count)
{
    uint32_t missing = 0;
    block->events = calloc((size_t)count + 1, sizeof(CUevent));
    for (uint32_t i = 0; i <= count; i++) {
        CUevent event = block->events ? event_take(block->context) : NULL;
        if (event && driver->cuEventRecord(event, i < count ? recorded[i] : own) == CUDA_SUCCESS) {
            block->events[block->event_count++] = event;
        } else {
            missing++;
            if (event)
                event_give(block->context, event);
        }
    }
    return missing;
}

static CUstream *take_recorded(struct block *block, uint32_t *count)
{
    pthread_spin_lock(&block->recorded_lock);
    CUstream *recorded = block->recorded;
    *count = block->recorded_count;
    block->recorded = NULL;
    __atomic_store_n(&block->recorded_count, 0, __ATOMIC_RELAXED);
    pthread_spin_unlock(&block->recorded_lock);
    return recorded;
}

/* Records the events that tell when the streams are done with a block. Returns 0 where that fails: then nothing proves it but a
 * synchronisation of the context. */
static int await_streams(struct block *block, CUstream stream, const CUstream *recorded, uint32_t count)
{
    struct scope scope = scope_enter(block->context);
    uint32_t missing = record_events(block, stream, recorded, count);
    if (missing)
        block_forget_events(block);
    scope_leave(scope);
    return !missing;
}

/* What becomes of a freed block that belongs to no pool; the events that it has to wait for are recorded in it. */
static enum freed_state retire_or_keep(struct block *block, CUstream stream, const CUstream *recorded, uint32_t count)
{
    int is_strict = heap_options->uaf == UAF_STRICT;
    if (stream == HEAP_SYNCHRONISED)
        return is_strict ? FREED_GONE : FREED_IDLE;
    if (stream == HEAP_UNORDERED)
        return FREED_WAITING;
    if (!count && !is_strict)
        return FREED_IDLE;
    return await_streams(block, stream, recorded, count) && is_strict ? FREED_RETIRING : FREED_WAITING;
}

/* A graph's buffer that is freed outside of its capture: by the program, or by another capture. It stays the graph's. */
static void return_to_graph(struct block *block, CUstream stream, struct pool *capture, uint64_t freed_by)
{
    uint32_t count;
    CUstream *recorded = take_recorded(block, &count);
    struct facts facts = block->facts;
    facts.free_stream = stream_number(stream);
    facts.who = facts_allocated_tid(&facts) | freed_by;
    facts_write(block, &facts);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    struct scope scope = scope_enter(block->context);
    block_forget_events(block); /* of its last return */
    if (!capture && stream != HEAP_SYNCHRONISED && stream != HEAP_UNORDERED)
        driver->cuStreamIsCapturing(stream, &status); /* also refuses where an event would end another stream's capture */
    scope_leave(scope);
    if (status == CU_STREAM_CAPTURE_STATUS_NONE)
        await_streams(block, stream, recorded, count);
    free(recorded);
    capture_return(block, capture, stream == HEAP_SYNCHRONISED);
}

cufence_status heap_free(void *pointer, CUstream stream, struct heap_freed *freed)
{
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    if (!pointer)
        return CUFENCE_OK;
    struct block *block = index_remove(address);
    if (!block)
        return refuse_free(address);

    struct heap_context *context = block->context;
    struct pool *pool = block->pool && pool_is_held(block->pool) ? block->pool : NULL;
    struct pool *capture = !pool || pool->is_capture ? pool_of(context, stream) : NULL;
    int is_returned = pool && pool->is_capture && capture != pool;
    pool = pool ? pool : capture;
    struct freelist *list = is_returned ? NULL : freelist_for(context, stream, pool);
    if (!list && !is_returned) {
        index_add(block); /* it stays live, so that it can be freed when the host has memory again */
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for the books of a stream");
    }
    int is_first = !block->pool || !block->returned; /* what a graph allocates again is not counted again */
    if (freed)
        *freed = is_first ? (struct heap_freed){.size = block->facts.size, .mapped = block->slot.mapped, .owner = block->owner}
                          : (struct heap_freed){0};
    uint32_t freed_stack = heap_options->uaf == UAF_STRICT ? python_stack() : 0; /* else no late access is ever seen */
    if (is_returned) {
        return_to_graph(block, stream, capture, facts_freed_by(thread_id(), freed_stack));
        index_add(block);
        return CUFENCE_OK;
    }
    if (!is_first)
        capture_forget(block);
    CUstream *recorded = NULL;
    uint32_t recorded_count = __atomic_load_n(&block->recorded_count, __ATOMIC_RELAXED);
    if (recorded_count)
        recorded = take_recorded(block, &recorded_count);
    uint64_t now = now_ns();
    facts_write_freed(block, now ? now : 1, stream_number(stream), facts_freed_by(thread_id(), freed_stack));
    int is_own = block->pool == pool;
    if (!is_own)
        pool_join(block, pool);

    enum freed_state state;
    if (pool) /* inside a capture nothing may be waited for; what is used outside of it too stays out of reuse until the graph
                 is gone */
        state = recorded_count || (pool->is_capture && !is_own) ? FREED_WAITING : FREED_IDLE;
    else
        state = retire_or_keep(block, stream, recorded, recorded_count);
    free(recorded);
    int is_mark_due = freelist_put(list, block, state, now);
    if (is_mark_due && state == FREED_IDLE) {
        struct scope scope = scope_enter(context);
        freelist_mark(list, now);
        scope_leave(scope);
    }
    if (state == FREED_RETIRING)
        worker_wake();
    if (state == FREED_GONE)
        block_unmap(block);
    return CUFENCE_OK;
}

cufence_status heap_record_stream(void *pointer, CUstream stream)
{
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    cufence_status status = CUFENCE_OK;
    if (!pointer)
        return CUFENCE_OK;
    struct block *block = index_find(address);
    if (!block)
        return error_set(CUFENCE_ERROR_NOT_FOUND, "no live buffer starts at 0x%llx", (unsigned long long)address);
    pthread_spin_lock(&block->recorded_lock);
    uint32_t count = block->recorded_count, known = 0;
    while (known < count && block->recorded[known] != stream)
        known++;
    if (known == count) {
        CUstream *grown = count == RECORDED_MOST ? NULL : realloc(block->recorded, (count + 1) * sizeof *grown);
        if (grown) {
            grown[count] = stream;
            block->recorded = grown;
            __atomic_store_n(&block->recorded_count, (uint16_t)(count + 1), __ATOMIC_RELAXED);
        } else {
            status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "cannot record stream %u of a buffer: no memory, or more than %u",
                               count + 1, RECORDED_MOST);
        }
    }
    pthread_spin_unlock(&block->recorded_lock);
    return status;
}

static cufence_status check_device(int device)
{
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    if (device < -1 || device >= devices)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
                         "there is no device %d: the driver has %d, counted from 0; -1 means all", device, devices);
    return CUFENCE_OK;
}

cufence_status heap_stats(int device, cufence_stats *stats)
{
    cufence_status status = check_device(device);
    if (status != CUFENCE_OK)
        return status;
    memset(stats, 0, sizeof *stats);
    for (struct heap_context *context = context_next(NULL); context; context = context_next(context)) {
        if (device >= 0 && context->device != device)
            continue;
        int is_dead = __atomic_load_n(&context->is_dead, __ATOMIC_RELAXED);
        struct freelist *list = __atomic_load_n(&context->freelists, __ATOMIC_ACQUIRE);
        int64_t live = __atomic_load_n(&context->live_bytes, __ATOMIC_RELAXED);
        int64_t peak = __atomic_load_n(&context->peak_live_bytes, __ATOMIC_RELAXED);
        for (; list; list = list->next) {
            list_lock(list);
            stats->idle_bytes += list->idle_pages * heap_granularity;
            live += list->live_bytes;
            stats->frees += is_dead ? list->allocations : list->frees; /* all went with the context */
            stats->allocations += list->allocations;
            list_unlock(list);
        }
        live = is_dead ? 0 : live;
        stats->live_bytes += live > 0 ? (uint64_t)live : 0;
        stats->peak_live_bytes += peak > live ? (uint64_t)peak : live > 0 ? (uint64_t)live : 0;
        stats->mapped_bytes += __atomic_load_n(&context->mapped_bytes, __ATOMIC_RELAXED);
        stats->captured_bytes += __atomic_load_n(&context->captured_bytes, __ATOMIC_RELAXED);
        stats->fresh_mappings += __atomic_load_n(&context->fresh, __ATOMIC_RELAXED);
        stats->retired_mappings += __atomic_load_n(&context->retired, __ATOMIC_RELAXED);
    }
    stats->live_buffers = stats->allocations > stats->frees ? stats->allocations - stats->frees : 0;
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    for (int i = device < 0 ? 0 : device; i < (device < 0 ? devices : device + 1); i++)
        stats->cached_bytes += physical_cached_bytes(i);
    stats->reserved_address_bytes = arena_end() - arena_start();
    stats->used_address_bytes = arena_used();
    return CUFENCE_OK;
}

/* Whether memory of graphs that are gone waits. Which streams have replayed them is not known. */
static int has_released_pools(struct heap_context *context)
{
    struct freelist *list = __atomic_load_n(&context->freelists, __ATOMIC_ACQUIRE);
    for (; list; list = list->next) {
        if (!list->pool || pool_is_held(list->pool))
            continue;
        list_lock(list);
        int has_blocks = list->idle_pages || list->waiting;
        list_unlock(list);
        if (has_blocks)
            return 1;
    }
    return 0;
}

cufence_status heap_trim(int device, int may_wait)
{
    cufence_status status = check_device(device);
    for (struct heap_context *context = context_next(NULL); status == CUFENCE_OK && context; context = context_next(context)) {
        if (device >= 0 && context->device != device)
            continue;
        struct scope scope = scope_enter(context);
        captures_collect(context);
        reclaim(context, may_wait || has_released_pools(context) ? 2 : 1);
        scope_leave(scope);
    }
    return status;
}

unsigned heap_faulted;

void heap_set_faulted(int device)
{
    for (struct heap_context *context = context_next(NULL); context; context = context_next(context)) {
        if ((device < 0 || context->device == device) && !__atomic_exchange_n(&context->is_faulted, 1, __ATOMIC_RELAXED))
            __atomic_add_fetch(&heap_faulted, 1, __ATOMIC_RELEASE);
    }
}

static struct heap_context *current_context(void)
{
    CUcontext handle = NULL;
    driver->cuCtxGetCurrent(&handle);
    return handle ? context_known(handle) : NULL;
}

int heap_is_faulted(void)
{
    if (__builtin_expect(!__atomic_load_n(&heap_faulted, __ATOMIC_ACQUIRE), 1))
        return 0;
    struct heap_context *context = current_context();
    return context && __atomic_load_n(&context->is_faulted, __ATOMIC_RELAXED);
}

struct heap_figures heap_figures(void)
{
    struct heap_figures figures = {0};
    struct heap_context *context = current_context();
    if (!context)
        return figures;
    for (struct freelist *list = __atomic_load_n(&context->freelists, __ATOMIC_ACQUIRE); list; list = list->next) {
        list_lock(list);
        figures.idle += list->idle_pages * heap_granularity;
        list_unlock(list);
    }
    figures.peak = __atomic_load_n(&context->peak_mapped_bytes, __ATOMIC_RELAXED);
    figures.mapped = __atomic_load_n(&context->mapped_bytes, __ATOMIC_RELAXED);
    figures.cached = physical_cached_bytes(context->device);
    return figures;
}

void heap_reset_peak(void)
{
    struct heap_context *context = current_context();
    if (context)
        __atomic_store_n(&context->peak_mapped_bytes, __atomic_load_n(&context->mapped_bytes, __ATOMIC_RELAXED),
                         __ATOMIC_RELAXED);
}

void heap_enter_context(void)
{
    CUcontext handle = NULL;
    cufence_status status = CUFENCE_OK;
    driver->cuCtxGetCurrent(&handle);
    if (handle)
        context_for(-1, &status);
}

void heap_each_context(void (*visit)(CUcontext context, int device, void *user), void *user)
{
    for (struct heap_context *context = context_next(NULL); context; context = context_next(context)) {
        if (!__atomic_load_n(&context->is_dead, __ATOMIC_RELAXED))
            visit(context->handle, context->device, user);
    }
}
