/* Memory of PyTorch's tensors: allocation, release, and what it counts. */
#include "torch/torch.h"

#include "api/closing.h"
#include "api/lifecycle.h"
#include "base/aside.h"
#include "base/error.h"
#include "base/list.h"
#include "base/lock.h"
#include "contexts/contexts.h"
#include "heap/heap.h"
#include "heap/unguarded/unguarded.h"
#include "order/order.h"

#include <link.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 128      /* as many as PyTorch can have */
#define SMALL (1u << 20) /* PyTorch's own bound */
#define SCRATCH_LEAST (64u << 10)
#define SCRATCH_ALIGN 512u /* PyTorch's own */

/* Of one device. */
static struct account {
    int lock; /* spun for: held for a few nanoseconds */
    struct cufence_torch_figure buffers[CUFENCE_TORCH_SIZES], bytes[CUFENCE_TORCH_SIZES];
    struct heap_figures since; /* the sums of mappings begin there */
    int64_t failures;          /* atomic */
    double limit;              /* as a part of the device's memory, once is_limited */
    int is_limited;
} accounts[DEVICES];

static double first_limit = 1; /* of devices that have none yet */

/* PyTorch's CUDA library: its tensors are allocated by libtorch_cpu.so, and by itself only what its own calls need. Constant
 * once PyTorch allocates. */
static struct {
    uintptr_t start, size;
} scratch_callers;

static int find_scratch_callers(struct dl_phdr_info *object, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (!strstr(object->dlpi_name, "/libtorch_cuda.so"))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && part->p_flags & PF_X && part->p_memsz > scratch_callers.size)
            scratch_callers.start = object->dlpi_addr + part->p_vaddr, scratch_callers.size = part->p_memsz;
    }
    return 1;
}

void cufence_torch_installed(void)
{
    dl_iterate_phdr(find_scratch_callers, NULL);
    closing_torch();
}

static uint32_t align_for(const void *caller, size_t size)
{
    return size >= SCRATCH_LEAST && (uintptr_t)caller - scratch_callers.start < scratch_callers.size ? SCRATCH_ALIGN : 0;
}

int32_t cufence_torch_fault(void)
{
    CUresult fault = context_fault();
    return fault == CUDA_SUCCESS ? CUDA_ERROR_ILLEGAL_ADDRESS : (int32_t)fault; /* or a fault of another context's */
}

static struct context *context_for(int device, cufence_status *status)
{
    *status = lifecycle_check();
    if (*status == CUFENCE_OK && (device < 0 || device >= DEVICES))
        *status = error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "there is no device %d", device);
    return *status == CUFENCE_OK ? context_of_device(device, status) : NULL;
}

static void account_lock(struct account *account)
{
    lock_entered(RANK_LEAF);
    for (unsigned spins = 1; __atomic_exchange_n(&account->lock, 1, __ATOMIC_ACQUIRE); spins++) {
        if (spins % 256 == 0)
            sched_yield();
    }
}

static void account_unlock(struct account *account)
{
    __atomic_store_n(&account->lock, 0, __ATOMIC_RELEASE);
    lock_left(RANK_LEAF);
}

static void add(struct cufence_torch_figure *figure, int64_t amount)
{
    figure->current += amount;
    if (amount < 0) {
        figure->freed -= amount;
        return;
    }
    figure->allocated += amount;
    if (figure->current > figure->peak)
        figure->peak = figure->current;
}

void cufence_torch_count(int device, uint64_t size, int change)
{
    struct account *account = &accounts[device];
    int size_class = size <= SMALL ? CUFENCE_TORCH_SMALL : CUFENCE_TORCH_LARGE;
    int64_t bytes = change * (int64_t)size;
    account_lock(account);
    add(&account->buffers[CUFENCE_TORCH_ALL], change);
    add(&account->buffers[size_class], change);
    add(&account->bytes[CUFENCE_TORCH_ALL], bytes);
    add(&account->bytes[size_class], bytes);
    account_unlock(account);
}

cufence_status cufence_torch_malloc(void **pointer, size_t size, int device, cufence_stream stream, const void *caller)
{
    cufence_status status;
    struct context *context = context_for(device, &status);
    if (!context)
        return status;
    struct stream *meant = stream_in(context, stream);
    if (!meant)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the driver does not know stream %p", (void *)stream);
    if (first_limit < 1 && !accounts[device].is_limited &&
        (status = cufence_torch_set_limit(device, first_limit)) != CUFENCE_OK)
        return status;
    const struct heap_request wanted = {.size = size,
                                        .align = align_for(caller, size),
                                        .context = context,
                                        .device = device,
                                        .stream = meant,
                                        .owner = HEAP_TORCH};
    status = passed_or_guarded(pointer, &wanted, __builtin_frame_address(0));
    if (status == CUFENCE_OK && size)
        cufence_torch_count(device, size, 1);
    else if (status != CUFENCE_OK)
        __atomic_fetch_add(&accounts[device].failures, 1, __ATOMIC_RELAXED);
    return status;
}

/* The stream of an allocation. A thread's own default stream cannot be named on another thread: NULL. */
static struct stream *stream_of(struct context *context, uint64_t handle)
{
    return handle == (uint64_t)(uintptr_t)CU_STREAM_PER_THREAD ? NULL : stream_in(context, (CUstream)(uintptr_t)handle);
}

static void describe(const struct heap_range *range, struct cufence_torch_buffer *out)
{
    *out = (struct cufence_torch_buffer){.address = range->address,
                                         .size = range->size,
                                         .stream = range->stream,
                                         .pool = {range->pool[0], range->pool[1]},
                                         .device = range->device};
}

cufence_status cufence_torch_free(void *pointer, struct cufence_torch_buffer *freed)
{
    struct heap_claim claim;
    struct heap_range range;
    cufence_status status = lifecycle_check();
    if (status != CUFENCE_OK)
        return status;
    if (heap_owns((uint64_t)(uintptr_t)pointer)) {
        if ((status = heap_claim(pointer, &claim)) != CUFENCE_OK)
            return status;
        heap_claimed(&claim, &range);
        struct stream *meant =
            stream_of(range.context, range.stream); /* PyTorch frees in the order of the allocation's stream */
        if (order_is_wanted())
            order_free("PyTorch's allocator", __builtin_frame_address(0), &range, meant);
        heap_free(&claim, meant, meant ? HEAP_STREAM : HEAP_CONTEXT, NULL);
    } else if (!passed_where(pointer, &range) || !passed_free(pointer, range.context, (CUstream)(uintptr_t)range.stream)) {
        return heap_refuse_free(pointer, &claim.where);
    }
    describe(&range, freed);
    cufence_torch_count(range.device, range.size, -1);
    return CUFENCE_OK;
}

int cufence_torch_find(const void *address, struct cufence_torch_buffer *out)
{
    struct heap_range range;
    if (lifecycle_check() != CUFENCE_OK ||
        (!heap_range_of((uint64_t)(uintptr_t)address, &range) && !passed_where(address, &range)))
        return 0;
    describe(&range, out);
    return 1;
}

/* ---- limits ---- */

static size_t free_bytes_of(struct context *context, size_t *total)
{
    size_t free_bytes = 0;
    struct scope scope = scope_enter(context);
    if (!scope.pushed || driver->cuMemGetInfo(&free_bytes, total) != CUDA_SUCCESS)
        free_bytes = *total = 0;
    scope_leave(scope);
    return free_bytes;
}

cufence_status cufence_torch_set_limit(int device, double part)
{
    cufence_status status;
    size_t total = 0;
    if (!(part >= 0 && part <= 1))
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "a part of a device's memory is between 0 and 1, not %g", part);
    if (device < 0) {
        first_limit = part;
        return CUFENCE_OK;
    }
    struct context *context = context_for(device, &status);
    if (!context)
        return status;
    free_bytes_of(context, &total);
    accounts[device].limit = part;
    accounts[device].is_limited = 1;
    uint64_t bytes = (uint64_t)(part * (double)total);
    return heap_limit(context, part < 1 ? (bytes ? bytes : 1) : 0);
}

double cufence_torch_limit(int device)
{
    return device >= 0 && device < DEVICES && accounts[device].is_limited ? accounts[device].limit : first_limit;
}

size_t cufence_torch_largest(int device)
{
    cufence_status status;
    size_t total = 0;
    struct context *context = context_for(device, &status);
    struct heap_figures figures = heap_figures(context);
    return context ? free_bytes_of(context, &total) + figures.idle + figures.cached : 0;
}

static void empty_cache(void *status)
{
    *(cufence_status *)status = heap_trim(-1, WAITS_FOR_WORK);
}

cufence_status cufence_torch_empty_cache(void)
{
    cufence_status status = lifecycle_check();
    if (status == CUFENCE_OK)
        aside_call(empty_cache, &status);
    return status;
}

void cufence_torch_share(int device, int peer)
{
    if (lifecycle_check() == CUFENCE_OK)
        heap_share(device, peer);
}

/* ---- figures ---- */

/* ever: made since the start; then, were: these two when the sums began. */
static struct cufence_torch_figure figure(uint64_t now, uint64_t peak, uint64_t ever, uint64_t then, uint64_t were)
{
    return (struct cufence_torch_figure){(int64_t)now, (int64_t)peak, (int64_t)(ever - then),
                                         (int64_t)(ever - now - (then - were))};
}

cufence_status cufence_torch_get_figures(int device, struct cufence_torch_figures *out)
{
    cufence_status status;
    cufence_stats stats;
    struct context *context = context_for(device, &status);
    if (context)
        status = heap_stats(device, &stats);
    if (status != CUFENCE_OK)
        return status;
    struct account *account = &accounts[device];
    struct heap_figures now = heap_figures(context);
    uint64_t used = stats.live_bytes + now.idle;
    account_lock(account);
    struct heap_figures since = account->since;
    for (int i = 0; i < CUFENCE_TORCH_SIZES; i++) {
        out->buffers[i] = account->buffers[i];
        out->bytes[i] = account->bytes[i];
    }
    account_unlock(account);
    out->mappings = figure(now.mappings, now.peak_mappings, now.fresh, since.fresh, since.mappings);
    out->mapped = figure(now.mapped, now.peak, now.fresh_bytes, since.fresh_bytes, since.mapped);
    out->slack = (struct cufence_torch_figure){.current = now.mapped > used ? (int64_t)(now.mapped - used) : 0};
    out->slack.peak = out->slack.current;
    out->failures = __atomic_load_n(&account->failures, __ATOMIC_RELAXED);
    return CUFENCE_OK;
}

static void reset(struct cufence_torch_figure *figures, int is_peak)
{
    for (int i = 0; i < CUFENCE_TORCH_SIZES; i++) {
        if (is_peak)
            figures[i].peak = figures[i].current;
        else
            figures[i].allocated = figures[i].freed = 0;
    }
}

cufence_status cufence_torch_reset(int device, int is_peak)
{
    cufence_status status;
    struct context *context = context_for(device, &status);
    if (!context)
        return status;
    struct account *account = &accounts[device];
    account_lock(account);
    reset(account->buffers, is_peak);
    reset(account->bytes, is_peak);
    account_unlock(account);
    if (is_peak) {
        heap_reset_peak(context);
        return CUFENCE_OK;
    }
    account->since = heap_figures(context);
    __atomic_store_n(&account->failures, 0, __ATOMIC_RELAXED);
    return CUFENCE_OK;
}

/* ---- pools ---- */

cufence_status cufence_torch_pool_retain(int device, const uint64_t id[2])
{
    return lifecycle_check() ?: pool_request(device, id, POOL_RETAIN, NULL);
}

int cufence_torch_pool_users(int device, const uint64_t id[2])
{
    int users = 0;
    if (lifecycle_check() == CUFENCE_OK)
        pool_request(device, id, POOL_ASK, &users);
    return users;
}

cufence_status cufence_torch_pool_lend(int device, const uint64_t id[2], int may_lend)
{
    return lifecycle_check() ?: pool_request(device, id, may_lend ? POOL_LEND : POOL_KEEP, NULL);
}

static int by_address(const void *a, const void *b)
{
    const cufence_mapping *left = a, *right = b;
    return LIST_ORDER(left->buffer.mapping_start, right->buffer.mapping_start);
}

size_t cufence_torch_mappings(int device, const uint64_t pool[2], int is_live, cufence_mapping **out)
{
    *out = NULL;
    size_t kept = 0, all = 0;
    (void)(lifecycle_check() ?: heap_mappings(device, out, &all));
    for (size_t i = 0; i < all; i++) {
        const cufence_mapping *mapping = &(*out)[i];
        if ((!pool || (mapping->pool[0] == pool[0] && mapping->pool[1] == pool[1])) && (!is_live || mapping->is_live))
            (*out)[kept++] = *mapping;
    }
    if (kept)
        qsort(*out, kept, sizeof **out, by_address);
    return kept;
}

/* all: sorted, as from cufence_torch_mappings(). */
static int is_among(const cufence_mapping *all, size_t count, const cufence_mapping *wanted)
{
    const cufence_mapping *found = count ? bsearch(wanted, all, count, sizeof *all, by_address) : NULL;
    return found && found->buffer.address == wanted->buffer.address && found->buffer.size == wanted->buffer.size;
}

cufence_status cufence_torch_pool_restore(int device, const uint64_t id[2], const cufence_mapping *wanted, size_t wanted_count)
{
    cufence_status status = CUFENCE_OK;
    cufence_mapping *live = NULL;
    struct cufence_torch_buffer freed;
    size_t live_count = cufence_torch_mappings(device, id, 1, &live);
    for (size_t i = 0; i < live_count && status == CUFENCE_OK; i++) {
        if (!is_among(wanted, wanted_count, &live[i]))
            status = cufence_torch_free((void *)(uintptr_t)live[i].buffer.address, &freed);
    }
    for (size_t i = 0; i < wanted_count && status == CUFENCE_OK; i++) {
        if (is_among(live, live_count, &wanted[i]))
            continue;
        status = heap_revive(device, id, &wanted[i].buffer);
        if (status == CUFENCE_OK)
            cufence_torch_count(device, wanted[i].buffer.size, 1);
    }
    free(live);
    return status;
}
