/* What is done when memory or address space runs out: who gives back what, in which order, and what is said. */
#include "heap_internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "vmm/physical.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Writes the places of allocation that hold most of the memory: "; most is held by train.py:12 in forward (1 GiB in 3), ...".
 */
static void say_holders(int device, char *out, size_t size)
{
    struct heap_use *use;
    size_t count = heap_use(device, &use), used = 0;
    out[0] = '\0';
    for (size_t i = 0; use && i < count && i < 3 && used < size; i++) {
        char name[128];
        heap_use_name(&use[i], name, sizeof name);
        int length =
            snprintf(out + used, size - used, "%s%s (%llu bytes in %llu buffer%s)", i ? ", " : "; most is held by ", name,
                     (unsigned long long)use[i].mapped_bytes, (unsigned long long)use[i].buffers, plural(use[i].buffers));
        used += length > 0 ? (size_t)length : 0;
    }
    free(use);
}

/* Reports what holds the memory: "out of memory" alone is of no help. */
static cufence_status out_of_memory(int device, uint64_t size, uint64_t mapped)
{
    cufence_stats stats = {0};
    size_t free_bytes = 0, all_bytes = 0;
    char holders[512];
    heap_stats(device, &stats);
    driver->cuMemGetInfo(&free_bytes, &all_bytes);
    say_holders(device, holders, sizeof holders);
    return error_set(
        CUFENCE_ERROR_OUT_OF_MEMORY,
        "no memory for %llu bytes (%llu with its mapping) on device %d: %zu of %zu bytes are free; %llu live buffers "
        "ask for %llu bytes and map %llu, of which graphs hold %llu%s. A buffer takes whole pages of 2 MiB",
        (unsigned long long)size, (unsigned long long)mapped, device, free_bytes, all_bytes,
        (unsigned long long)stats.live_buffers, (unsigned long long)stats.live_bytes, (unsigned long long)stats.mapped_bytes,
        (unsigned long long)stats.captured_bytes, holders);
}

#define FULL_NS 100000000ull         /* 0.1 s */
#define SCARCE_WAITS 500             /* of 1 ms in which nothing is retired */
#define SCARCE_MOST_NS 2000000000ull /* 2 s, also if something is */
#define DEVICES 64

static uint64_t full_ns[DEVICES]; /* atomic: when nothing more could be released on the device; 0: never */

/* A full device is not searched anew for each of thousands of buffers that something else has room for. */
static int was_just_full(int device)
{
    uint64_t then = device < DEVICES ? __atomic_load_n(&full_ns[device], __ATOMIC_RELAXED) : 0;
    return then && now_ns() - then < FULL_NS;
}

static void note_full(int device)
{
    if (device < DEVICES)
        __atomic_store_n(&full_ns[device], now_ns(), __ATOMIC_RELAXED);
}

cufence_status memory_still_full(int device, uint64_t size)
{
    return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no memory for %llu bytes on device %d, which was full a moment ago",
                     (unsigned long long)size, device);
}

/* Returns when the background thread has released what it was working on in the context. */
static void await_worker(struct books *books)
{
    if (visit_begin(books, VISIT_MS))
        visit_end(books);
}

static int is_nearly_full(const struct books *books)
{
    size_t total = 0;
    return driver->cuDeviceTotalMem(&total, books->context->device) == CUDA_SUCCESS &&
           figure(&books->mapped_bytes) > total / 8 * 7;
}

int memory_is_scarce(const struct books *books, const struct heap_request *wanted, unsigned reserve)
{
    size_t free_bytes = 0, all_bytes = 0;
    return !wanted->is_last_try && wanted->size <= CELLS_SIZE_MOST && wanted->device == books->context->device &&
           is_nearly_full(books) && driver->cuMemGetInfo(&free_bytes, &all_bytes) == CUDA_SUCCESS &&
           free_bytes < all_bytes / reserve;
}

void memory_release(const struct books *books, int device, int level)
{
    reclaim_device(books->context, device, level);
    if (level >= 1)
        passed_trim(device);
}

/* Whether memory is scarce also when what can be released has been. With uaf=strict most of what was freed waits for work that
 * is not over, which is given some time, but is not synchronised with: it may be waiting for the caller. Other threads may take
 * what this one releases. */
static int stays_scarce(struct books *books, const struct heap_request *wanted, unsigned reserve)
{
    const uint64_t began = now_ns();
    uint64_t retired = figure(&books->shared.retired), before;
    unsigned waits = 0;
    if (was_just_full(wanted->device))
        return 1;
    for (;;) {
        worker_look(VISIT_MS);
        memory_release(books, wanted->device, 1);
        if (!memory_is_scarce(books, wanted, reserve))
            return 0;
        if (heap_options->uaf != UAF_STRICT || now_ns() - began >= SCARCE_MOST_NS)
            break;
        before = retired;
        retired = figure(&books->shared.retired);
        if (retired != before)
            continue;
        if (++waits > SCARCE_WAITS)
            break;
        usleep(1000);
    }
    note_full(wanted->device);
    return 1;
}

static struct block *map_within(struct books *books, int device, const struct layout *layout, int is_alone,
                                cufence_status *status)
{
    uint64_t limit = figure(&books->limit);
    if (!limit || figure(&books->mapped_bytes) + layout->mapped <= limit)
        return block_map(books, device, layout, is_alone, status);
    *status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the program allows itself %llu bytes", (unsigned long long)limit);
    return NULL;
}

/* The device is full, but other threads have memory in hand that they are giving back. Others may get it first. */
static struct block *map_what_moves(struct books *books, int device, const struct layout *layout, int is_alone, uint64_t since,
                                    cufence_status *status)
{
    const uint64_t until = monotonic_ms() + PATIENCE_MS;
    struct block *block = NULL;
    while (!block && heap_lacks_room(*status) && physical_is_moving(since) && monotonic_ms() < until) {
        usleep(MOVING_PAUSE_US);
        memory_release(books, device, 1);
        since = heap_returns();
        block = map_within(books, device, layout, is_alone, status);
    }
    return block;
}

struct block *memory_map(struct books *books, const struct heap_request *wanted, const struct layout *layout, int is_captured,
                         unsigned reserve, cufence_status *status)
{
    int device = wanted->device, is_brief = !wanted->is_last_try && was_just_full(device);
    int is_alone = reserve == RESERVE && heap_options->small != SMALL_MAP && wanted->size <= CELLS_SIZE_MOST;
    /* A synchronisation would invalidate a capture, and the program's own calls don't wait natively. */
    int hardest = is_brief || is_captured || !may_wait(wanted) ? 1 : 2;
    if (!is_captured && memory_is_scarce(books, wanted, reserve) && stays_scarce(books, wanted, reserve)) {
        *status = memory_still_full(device, wanted->size);
        return NULL;
    }
    struct block *block = map_within(books, device, layout, is_alone, status);
    uint64_t since = 0;
    for (int level = 0; !block && level <= hardest; level++) {
        if (!heap_lacks_room(*status))
            return NULL;
        if (level >= 1 && !is_brief)
            worker_look(VISIT_MS);
        if (level >= 1)
            pools_lend(books);
        memory_release(books, device, level);
        if (level >= 1 && !is_brief) { /* it may have had the second mapping of what was released just now */
            await_worker(books);
            memory_release(books, device, 0);
        }
        since = heap_returns();
        block = map_within(books, device, layout, is_alone, status);
    }
    if (!block)
        block = map_what_moves(books, device, layout, is_alone, since, status);
    if (!block && *status == CUFENCE_ERROR_OUT_OF_MEMORY)
        *status = is_brief ? memory_still_full(device, wanted->size) : out_of_memory(device, wanted->size, layout->mapped);
    if (!block && heap_lacks_room(*status) && !is_brief && !is_captured)
        note_full(device);
    if (block)
        reclaim_note_peak(books);
    return block;
}

cufence_status heap_trim(int device, enum heap_waits waits)
{
    cufence_status status = heap_check_device(device);
    passed_settle(waits != WAITS_FOR_NOTHING);
    if (status == CUFENCE_OK)
        reclaim_unused(device, waits);
    return status;
}
