/* Which buffers are left to the driver, and what is known of them. */
#include "unguarded.h"

#include "driver_memory.h"
#include "base/aside.h"
#include "base/output.h"
#include "base/filter.h"
#include "stacks/labels.h"
#include "stacks/stack.h"

#include <stdlib.h>
#include <string.h>

/* ---- what the options leave out ---- */

int passed_is_wanted;

static struct rules skip; /* constant after passed_open() */

void passed_open(void)
{
    rules_parse(&skip, heap_options->skip, strlen(heap_options->skip)); /* options.c has accepted them */
    passed_is_wanted = skip.count || heap_options->min_size;
}

/* Whether a rule fits the stack. Reading names takes milliseconds, so the answer is kept for each stack. */
static int fit_frames(const struct stack *stack)
{
    static uint64_t known[4096]; /* atomic: the hash of a stack with the answer in its lowest bit; 0: none */
    uint64_t hash = (stack_native_hash(stack) + stack->python) * UINT64_C(0x9e3779b97f4a7c15) | 2;
    uint64_t *entry = &known[hash >> 52], word = __atomic_load_n(entry, __ATOMIC_RELAXED);
    if (word >> 1 == hash >> 1)
        return (int)(word & 1);
    struct stack_frame frames[2 * STACK_READ];
    size_t native = stack_native_frames(stack, frames, STACK_READ);
    size_t all = native + stack_interned_frames(stack->python, frames + native, STACK_READ);
    int fits = native && rules_fit(&skip, RULE_LIB, frames[0].module);
    for (size_t i = 0; i < all && !fits; i++)
        fits = rules_fit(&skip, RULE_FUNC, frames[i].function) || rules_fit(&skip, RULE_FILE, frames[i].file);
    __atomic_store_n(entry, hash >> 1 << 1 | (uint64_t)fits, __ATOMIC_RELAXED);
    return fits;
}

struct fitting {
    struct stack stack;
    int fits;
};

static void fit_aside(void *argument)
{
    struct fitting *fitting = argument;
    fitting->fits = fit_frames(&fitting->stack);
}

static int fit_stack(const void *frame)
{
    struct fitting fitting;
    stack_capture_native(&fitting.stack, frame);
    fitting.stack.python = stack_capture_python();
    aside_call(fit_aside, &fitting);
    return fitting.fits;
}

enum passed_reason passed_judge(const struct heap_request *wanted, const void *frame)
{
    const unsigned stacks = 1u << RULE_FUNC | 1u << RULE_FILE | 1u << RULE_LIB;
    if (wanted->size < heap_options->min_size)
        return PASSED_SMALL;
    if (rules_fit(&skip, RULE_LABEL, label_current()) || (skip.kinds & stacks && fit_stack(frame)))
        return PASSED_SKIPPED;
    return PASSED_NOT;
}

enum passed_reason passed_after(cufence_status status)
{
    if (!heap_lacks_room(status))
        return PASSED_NOT;
    return status == CUFENCE_ERROR_OUT_OF_MEMORY ? PASSED_NO_MEMORY : PASSED_NO_SPACE;
}

/* ---- figures ---- */

static struct passed_figures figures[PASSED_REASONS]; /* atomic */

struct passed_figures passed_figures(enum passed_reason why)
{
    return (struct passed_figures){__atomic_load_n(&figures[why].count, __ATOMIC_RELAXED),
                                   __atomic_load_n(&figures[why].bytes, __ATOMIC_RELAXED),
                                   __atomic_load_n(&figures[why].live_count, __ATOMIC_RELAXED),
                                   __atomic_load_n(&figures[why].live_bytes, __ATOMIC_RELAXED)};
}

struct passed_figures passed_sums(void)
{
    struct passed_figures sums = {0};
    for (int why = PASSED_NOT + 1; why < PASSED_REASONS; why++) {
        const struct passed_figures one = passed_figures((enum passed_reason)why);
        sums.count += one.count;
        sums.bytes += one.bytes;
        sums.live_count += one.live_count;
        sums.live_bytes += one.live_bytes;
    }
    return sums;
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
