#include "unguarded.h"

#include "driver_memory.h"
#include "base/output.h"

#include <stdlib.h>

/* ---- figures ---- */

static struct passed_figures figures[PASSED_REASONS]; /* atomic */

struct passed_figures passed_figures(enum passed_reason why)
{
    return (struct passed_figures){__atomic_load_n(&figures[why].count, __ATOMIC_RELAXED),
                                   __atomic_load_n(&figures[why].bytes, __ATOMIC_RELAXED),
                                   __atomic_load_n(&figures[why].live_count, __ATOMIC_RELAXED),
                                   __atomic_load_n(&figures[why].live_bytes, __ATOMIC_RELAXED)};
}

const char *passed_word(enum passed_reason why)
{
    static const char *const words[PASSED_REASONS] = {
        [PASSED_NOT] = "guarded",
        [PASSED_NO_MEMORY] = "for whose pages of 2 MiB there was no room",
        [PASSED_NO_SPACE] = "for whose pages there was no address space",
        [PASSED_SMALL] = "smaller than skip=smaller",
        [PASSED_SKIPPED] = "that skip names",
        [PASSED_GRAPH] = "of graphs, beyond a quarter of the device",
        [PASSED_EXPORTED] = "that other processes may open (NCCL, NVSHMEM, ipc=driver)",
    };
    return words[why];
}

static void count_live(const struct passed *passed, int64_t change)
{
    __atomic_fetch_add(&figures[passed->why].live_count, (uint64_t)change, __ATOMIC_RELAXED);
    __atomic_fetch_add(&figures[passed->why].live_bytes, (uint64_t)change * passed->size, __ATOMIC_RELAXED);
}

/* ---- the buffers ---- */

/* Guards the table and what is in it: an entry belongs to the thread that has taken it out. */
static struct lock lock = LOCK(RANK_PASSED);
static struct passed *table;
static uint64_t live; /* atomic: the table's size */

/* Caller holds the lock. */
static struct passed *take(uint64_t address)
{
    lock_expect(RANK_PASSED);
    struct passed *found;
    HASH_FIND(hh, table, &address, sizeof address, found);
    if (found) {
        HASH_DEL(table, found);
        __atomic_fetch_sub(&live, 1, __ATOMIC_RELEASE);
        count_live(found, -1);
    }
    return found;
}

struct passed *passed_take(uint64_t address)
{
    if (!__atomic_load_n(&live, __ATOMIC_ACQUIRE))
        return NULL;
    HOLD(&lock);
    struct passed *found = take(address);
    return found;
}

void passed_drop(struct passed *passed)
{
    free(passed->recorded);
    free(passed);
}

static void say_no_memory(const struct heap_request *wanted)
{
    cufence_stats stats = {0};
    size_t free_bytes = 0, all_bytes = 0;
    heap_stats(wanted->device, &stats);
    driver->cuMemGetInfo(&free_bytes, &all_bytes);
    output_say("cufence: device %d has no room left for whole pages of 2 MiB: %llu live buffers ask for %llu bytes and map "
               "%llu, %zu of %zu bytes are free. From now on buffers that do not fit are left to the driver, unguarded (this "
               "one: %zu bytes), and counted at exit. skip= chooses what is guarded\n",
               wanted->device, (unsigned long long)stats.live_buffers, (unsigned long long)stats.live_bytes,
               (unsigned long long)stats.mapped_bytes, free_bytes, all_bytes, wanted->size);
}

static void say_no_space(const struct heap_request *wanted)
{
    cufence_stats stats = {0};
    heap_stats(-1, &stats);
    output_say(
        "cufence: no address space is left for guarded buffers: %llu live ones have used up the %llu MiB that `ulimit -v` "
        "allows. From now on buffers that do not fit are left to the driver, unguarded (this one: %zu bytes), "
        "and counted at exit\n",
        (unsigned long long)stats.live_buffers, (unsigned long long)(stats.reserved_address_bytes >> 20), wanted->size);
}

/* Takes `passed` over. Returns 0 if it could not be added. */
static int put(struct passed *passed)
{
    lock_take(&lock);
    struct passed *stale = take(passed->address); /* its free was not seen, or its context was destroyed */
    HASH_ADD(hh, table, address, sizeof passed->address, passed);
    int is_added = passed->hh.tbl != NULL;
    if (is_added) {
        __atomic_fetch_add(&live, 1, __ATOMIC_RELEASE);
        count_live(passed, 1);
    }
    lock_release(&lock);
    if (stale)
        passed_drop(stale);
    if (!is_added)
        passed_drop(passed);
    return is_added;
}

void passed_freed(struct passed *passed, int is_freed)
{
    if (passed && is_freed)
        passed_drop(passed);
    else if (passed)
        put(passed);
}

int passed_remember(uint64_t address, const struct heap_request *wanted, enum passed_reason why, int is_ours, int is_async)
{
    static int has_said[PASSED_REASONS]; /* atomic */
    if ((why == PASSED_NO_MEMORY || why == PASSED_NO_SPACE) && !__atomic_exchange_n(&has_said[why], 1, __ATOMIC_RELAXED))
        (why == PASSED_NO_MEMORY ? say_no_memory : say_no_space)(wanted);
    struct passed *passed = calloc(1, sizeof *passed);
    if (passed) {
        passed->address = address;
        passed->size = wanted->size;
        passed->why = why;
        passed->device = wanted->device;
        passed->context = wanted->context;
        passed->stream = wanted->stream ? wanted->stream->handle : NULL;
        passed->is_ours = is_ours;
        passed->is_async = is_async;
    }
    __atomic_fetch_add(&figures[why].count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&figures[why].bytes, wanted->size, __ATOMIC_RELAXED);
    return passed && put(passed);
}

int passed_add(uint64_t address, const struct heap_request *wanted, enum passed_reason why)
{
    return passed_remember(address, wanted, why, 0, 0);
}

int passed_where(const void *pointer, struct heap_range *out)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    struct passed *found = NULL;
    if (!__atomic_load_n(&live, __ATOMIC_ACQUIRE))
        return 0;
    HOLD(&lock);
    HASH_FIND(hh, table, &address, sizeof address, found);
    if (found)
        *out = (struct heap_range){.address = address,
                                   .size = found->size,
                                   .context = found->context,
                                   .device = found->device,
                                   .stream = (uint64_t)(uintptr_t)found->stream};
    return found != NULL;
}

void passed_forget_context(const struct context *context)
{
    struct passed *passed, *next;
    if (!__atomic_load_n(&live, __ATOMIC_ACQUIRE))
        return;
    HOLD(&lock);
    HASH_ITER(hh, table, passed, next)
    {
        if (passed->context != context)
            continue;
        passed_drop(take(passed->address));
    }
}

struct unguarded_buffers passed_live(int device, uint64_t address)
{
    struct unguarded_buffers sum = {0};
    HOLD(&lock);
    for (struct passed *passed = table; passed; passed = passed->hh.next) {
        if (device >= 0 && passed->device != device)
            continue;
        sum.count++;
        sum.bytes += passed->size;
        if (passed->address <= address && (!sum.size || passed->address > sum.near)) {
            sum.near = passed->address;
            sum.size = passed->size;
        }
    }
    return sum;
}

/* ---- streams ---- */

/* Caller holds the lock. stream: NULL if it is not known. */
static void record(struct passed *passed, struct stream *stream)
{
    lock_expect(RANK_PASSED);
    size_t count = stream ? stream_refs_add(&passed->recorded, passed->recorded_count, SIZE_MAX, stream) : 0;
    if (count)
        passed->recorded_count = count;
    else
        passed->is_async = 0; /* freed once the context is idle */
}

int passed_record(void *pointer, CUstream handle)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    struct passed *found = NULL;
    if (!__atomic_load_n(&live, __ATOMIC_ACQUIRE))
        return 0;
    struct stream *stream = stream_resolve(handle);
    HOLD(&lock);
    HASH_FIND(hh, table, &address, sizeof address, found);
    if (found && found->is_ours)
        record(found, stream);
    return found != NULL;
}
