#include "launch.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define RINGS 16      /* per context; the seventeenth thread that launches shares a ring with the first */
#define NODES RINGS   /* the ring of kernels in graphs */
#define ATTEMPTS 1000 /* at an entry that another thread holds: that takes 0.1 us unless it is descheduled, ... */
#define RESTS 2000    /* ... which is waited for so often */
#define REST_US 100u
#define MOST_BYTES 32768u /* of arguments; the driver's limit is 32,764 (CUDA 12.1 and later) */
#define REST_STEP 512u    /* memory for the arguments beyond LAUNCH_KEPT_BYTES is a multiple of this */

/* Only the thread that holds an entry may read or write it. */
struct slot {
    int is_held;         /* atomic */
    uint32_t rest_bytes; /* of the launch's arguments, kept in rest[] */
    uint32_t rest_size;
    uint8_t *rest; /* what does not fit into the entry. Kept for the next launch in this slot */
    struct launch_entry entry;
    struct stack stack;
};

/* One ring per thread and context, because a cache line that two processors write in turn moves between them each time. */
struct ring {
    uint64_t count;              /* atomic: launches in this context */
    struct slot *slots;          /* atomic; written once, under the lock. NULL: launches are only counted */
} __attribute__((aligned(128))); /* no false sharing between threads */

/* Launches of one context. Reused by the next context in the same entry. */
struct launch_record {
    struct context *context;
    struct launch_record *next; /* in the list of all records; constant */
    uint64_t settled;           /* atomic: number of launches when the context was last found idle */
    struct ring rings[RINGS + 1];
};

static struct {
    struct lock lock;              /* held while a record is created or cleared, and while a ring is allocated */
    uint64_t size;                 /* slots per ring, a power of two or 0; constant after launch_open() */
    unsigned threads;              /* atomic: number of threads that have launched */
    struct launch_record *records; /* atomic; added at the front, never removed */
    uint64_t ended;                /* atomic: number of launches of destroyed contexts */
    struct launch_record others;   /* launches without a context, or without host memory for its record: only counted */
} launches = {.lock = LOCK(RANK_LAUNCHES)};

void launch_open(uint64_t entries)
{
    launches.size = entries ? 1 : 0;
    while (launches.size < entries)
        launches.size *= 2;
}

/* ---- rings ---- */

static struct launch_record *find(const struct context *context)
{
    return __atomic_load_n((struct launch_record *const *)&context->books[CONTEXT_LAUNCHES], __ATOMIC_ACQUIRE);
}

static struct launch_record *add(struct context *context)
{
    lock_take(&launches.lock);
    struct launch_record *record = find(context);
    if (!record && (record = aligned_alloc(_Alignof(struct launch_record), sizeof *record)) != NULL) {
        memset(record, 0, sizeof *record);
        record->context = context;
        record->next = launches.records;
        __atomic_store_n(&launches.records, record, __ATOMIC_RELEASE);
        __atomic_store_n((struct launch_record **)&context->books[CONTEXT_LAUNCHES], record, __ATOMIC_RELEASE);
    }
    lock_release(&launches.lock);
    return record ? record : &launches.others;
}

static struct launch_record *find_or_add(struct context *context)
{
    struct launch_record *record = context ? find(context) : &launches.others;
    return record ? record : add(context);
}

static struct ring *own_ring(struct launch_record *record)
{
    static HOT_TLS unsigned number; /* from 1 */
    if (!number)
        number = __atomic_fetch_add(&launches.threads, 1, __ATOMIC_RELAXED) % RINGS + 1;
    return &record->rings[number - 1];
}

static struct slot *make_slots(struct ring *ring)
{
    HOLD(&launches.lock);
    struct slot *slots = ring->slots;
    if (!slots) {
        slots = calloc(launches.size, sizeof *slots); /* without host memory, launches are only counted */
        __atomic_store_n(&ring->slots, slots, __ATOMIC_RELEASE);
    }
    return slots;
}

static struct slot *slots_of(struct launch_record *record, struct ring *ring)
{
    if (!launches.size || record == &launches.others)
        return NULL;
    struct slot *slots = __atomic_load_n(&ring->slots, __ATOMIC_ACQUIRE);
    return slots ? slots : make_slots(ring);
}

/* ---- entries ---- */

static int hold(struct slot *slot)
{
    return !__atomic_exchange_n(&slot->is_held, 1, __ATOMIC_ACQUIRE);
}

static void let_go(struct slot *slot)
{
    assert(__atomic_load_n(&slot->is_held, __ATOMIC_RELAXED));
    __atomic_store_n(&slot->is_held, 0, __ATOMIC_RELEASE);
}

/* No fact is lost because another thread was looking: returns 0 only if that takes for ever. */
static __attribute__((noinline)) int hold_soon(struct slot *slot)
{
    int is_held = 0;
    for (int i = 0; i < ATTEMPTS + RESTS && !(is_held = hold(slot)); i++)
        if (i >= ATTEMPTS)
            aside_sleep(REST_US);
    return is_held;
}

static uint32_t at_most(size_t bytes, size_t most)
{
    return (uint32_t)(bytes < most ? bytes : most);
}

/* Makes room for arguments of `bytes`, which may be less than that if the host has no memory. */
static void make_room(struct slot *slot, uint32_t bytes)
{
    uint32_t rest = at_most(bytes, MOST_BYTES) - LAUNCH_KEPT_BYTES;
    if (rest > slot->rest_size) {
        free(slot->rest);
        slot->rest_size = (rest + REST_STEP - 1) / REST_STEP * REST_STEP;
        slot->rest = malloc(slot->rest_size);
        if (!slot->rest)
            slot->rest_size = 0;
    }
    slot->rest_bytes = at_most(rest, slot->rest_size);
}

/* Sets the size of the launch's arguments, before they are put into the slot. */
static void set_size(struct slot *slot, uint32_t bytes)
{
    slot->entry.argument_bytes = bytes;
    slot->entry.kept_bytes = at_most(bytes, LAUNCH_KEPT_BYTES);
    slot->rest_bytes = 0;
    if (bytes > LAUNCH_KEPT_BYTES)
        make_room(slot, bytes);
}

/* Puts arguments into the slot. `size` is not 0. */
static void put(struct slot *slot, uint32_t offset, const uint8_t *from, uint32_t size)
{
    uint32_t near = offset < LAUNCH_KEPT_BYTES ? at_most(size, LAUNCH_KEPT_BYTES - offset) : 0;
    if (near)
        memcpy(slot->entry.bytes + offset, from, near);
    if (near == size)
        return;
    uint32_t at = offset + near - LAUNCH_KEPT_BYTES;
    if (at < slot->rest_bytes)
        memcpy(slot->rest + at, from + near, at_most(size - near, slot->rest_bytes - at));
}

static void keep_buffer(struct slot *slot, void *const *extra)
{
    const struct launch_function *function = slot->entry.function;
    size_t size, most = function && function->has_layout ? function->argument_bytes : UINT32_MAX;
    const void *buffer = launch_buffer(extra, &size);
    set_size(slot, buffer ? at_most(size, most) : 0);
    if (slot->entry.argument_bytes)
        put(slot, 0, buffer, slot->entry.argument_bytes);
}

/* For launches that pass a pointer to each argument. */
static void keep_each(struct slot *slot, void *const *parameters)
{
    const struct launch_function *function = slot->entry.function;
    set_size(slot, function->argument_bytes);
    for (uint32_t i = 0; i < function->argument_count; i++) {
        struct launch_argument argument = function->arguments[i];
        if (!parameters[i])
            continue;
        if (argument.size == 8 && argument.offset <= LAUNCH_KEPT_BYTES - 8)
            memcpy(slot->entry.bytes + argument.offset, parameters[i], 8);
        else if (argument.size)
            put(slot, argument.offset, parameters[i], argument.size);
    }
}

static void fill(struct slot *slot, const struct launch_call *call, const struct launch_function *function)
{
    struct launch_entry *entry = &slot->entry;
    entry->function = function;
    entry->is_cooperative = call->is_cooperative;
    entry->node = call->node;
    entry->shape = call->shape;
    entry->shared_bytes = call->shared_bytes;
    if (call->parameters && function && function->has_layout)
        keep_each(slot, call->parameters);
    else
        keep_buffer(slot, call->parameters ? NULL : call->extra);
}

/* Counts one launch in the ring and returns its slot, held, with the common fields filled in; NULL if the launch is not kept.
 */
static inline struct slot *begin(struct context *context, struct launch_record *record, struct ring *ring, CUstream stream)
{
    struct slot *slots = slots_of(record, ring);
    uint64_t sequence = __atomic_add_fetch(&ring->count, 1, __ATOMIC_RELAXED);
    struct slot *slot = slots ? &slots[(sequence - 1) & (launches.size - 1)] : NULL;
    if (!slot || (!hold(slot) && !hold_soon(slot)))
        return NULL;
    slot->entry.turn++;
    slot->entry.sequence = sequence;
    slot->entry.time_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
    slot->entry.stream = (uint64_t)(uintptr_t)stream;
    slot->entry.tid = thread_id();
    slot->entry.device = context ? context->device : -1;
    return slot;
}

/* The ring is larger than a processor's own cache: fetches the lines that most launches write. */
static inline void expect_next(const struct ring *ring)
{
    const struct slot *slot = &ring->slots[__atomic_load_n(&ring->count, __ATOMIC_RELAXED) & (launches.size - 1)];
    __builtin_prefetch(slot, 1);
    __builtin_prefetch(&slot->entry.block, 1);
    __builtin_prefetch(&slot->entry.bytes[32], 1);
    __builtin_prefetch(&slot->stack, 1);
}

/* Records it in the ring. `frame` is of the function whose caller launches. */
static inline __attribute__((always_inline)) const struct launch_function *keep(struct context *context,
                                                                                struct launch_record *record, struct ring *ring,
                                                                                const struct launch_call *call, CUstream stream,
                                                                                CUgraphExec graph, const void *frame)
{
    const struct launch_function *function = launches.size && !graph ? functions_find(call->function) : NULL;
    struct slot *slot = begin(context, record, ring, stream);
    if (!slot)
        return function;
    fill(slot, call, function);
    slot->entry.graph = (uint64_t)(uintptr_t)graph;
    stack_capture_from(&slot->stack, frame);
    let_go(slot);
    expect_next(ring);
    return function;
}

const struct launch_function *launch_record(struct context *context, const struct launch_call *call)
{
    struct launch_record *record = find_or_add(context);
    return keep(context, record, own_ring(record), call, call->stream, NULL,
                call->frame ? call->frame : __builtin_frame_address(0));
}

void launch_record_node(struct context *context, const struct launch_call *call)
{
    struct launch_record *record = find_or_add(context);
    keep(context, record, &record->rings[NODES], call, call->stream, NULL,
         call->frame ? call->frame : __builtin_frame_address(0));
}

void launch_record_graph(struct context *context, CUgraphExec graph, CUstream stream, const void *frame)
{
    static const struct launch_call no_kernel;
    struct launch_record *record = find_or_add(context);
    keep(context, record, own_ring(record), &no_kernel, stream, graph, frame ? frame : __builtin_frame_address(0));
}

struct launch_mark launch_newest(struct context *context)
{
    struct launch_record *record = find(context);
    struct ring *ring = record ? own_ring(record) : NULL;
    struct slot *slots = ring ? __atomic_load_n(&ring->slots, __ATOMIC_ACQUIRE) : NULL;
    uint64_t sequence = ring ? __atomic_load_n(&ring->count, __ATOMIC_RELAXED) : 0;
    struct slot *slot = slots ? &slots[(sequence - 1) & (launches.size - 1)] : NULL;
    struct launch_mark mark = {0};
    if (!slot || !hold_soon(slot))
        return mark;
    if (slot->entry.sequence == sequence && slot->entry.tid == thread_id()) /* threads may share a ring */
        mark = (struct launch_mark){slot, slot->entry.turn, slot->entry.function, slot->stack.python};
    let_go(slot);
    return mark;
}

static uint64_t count_of(const struct launch_record *record)
{
    uint64_t count = 0;
    for (size_t i = 0; record && i < RINGS; i++)
        count += __atomic_load_n(&record->rings[i].count, __ATOMIC_ACQUIRE);
    return count;
}

uint64_t launch_count(const struct context *context)
{
    return count_of(context ? find(context) : &launches.others);
}

uint64_t launch_total(void)
{
    uint64_t count = __atomic_load_n(&launches.ended, __ATOMIC_RELAXED) + count_of(&launches.others);
    for (struct launch_record *record = __atomic_load_n(&launches.records, __ATOMIC_ACQUIRE); record; record = record->next)
        count += count_of(record);
    return count;
}

int launch_all_kept(int device)
{
    for (struct launch_record *record = __atomic_load_n(&launches.records, __ATOMIC_ACQUIRE); record; record = record->next) {
        for (size_t i = 0; i < RINGS && record->context->device == device; i++)
            if (__atomic_load_n(&record->rings[i].count, __ATOMIC_ACQUIRE) > launches.size)
                return 0;
    }
    return !count_of(&launches.others);
}

int launch_is_settled(const struct context *context, uint64_t count)
{
    const struct launch_record *record = find(context);
    return count == (record ? __atomic_load_n(&record->settled, __ATOMIC_RELAXED) : 0);
}

void launch_settle(const struct context *context, uint64_t count)
{
    struct launch_record *record = find(context);
    if (record)
        __atomic_store_n(&record->settled, count, __ATOMIC_RELAXED);
}

static void clear(struct ring *ring)
{
    for (uint64_t i = 0; ring->slots && i < launches.size; i++) {
        if (hold_soon(&ring->slots[i])) {
            ring->slots[i].entry.sequence = 0;
            ring->slots[i].entry.turn++;
            let_go(&ring->slots[i]);
        }
    }
}

void launch_forget_context(struct context *context)
{
    launch_forget_functions(); /* its modules are unloaded with it */
    struct launch_record *record = find(context);
    HOLD(&launches.lock);
    if (record)
        __atomic_fetch_add(&launches.ended, count_of(record), __ATOMIC_RELAXED);
    for (size_t i = 0; record && i <= NODES; i++) {
        clear(&record->rings[i]);
        __atomic_store_n(&record->rings[i].count, 0, __ATOMIC_RELEASE);
    }
    if (record)
        __atomic_store_n(&record->settled, 0, __ATOMIC_RELAXED);
}

/* ---- reading ---- */

static int is_asked_for(const struct launch_query *query, const struct launch_entry *entry)
{
    if (entry->graph)
        return query->has_graphs || !query->kernel;
    return !query->kernel || (entry->function && !strcmp(entry->function->name, query->kernel));
}

/* A reader's position in a ring: everything newer has been visited. */
struct cursor {
    struct slot *slots;
    uint64_t sequence, oldest; /* next launch to return, if sequence >= oldest */
    uint64_t time_ns;          /* of that launch */
};

/* Holds the launch's slot if the launch is still in it and matches the query; else returns NULL. */
static struct slot *hold_wanted(const struct launch_query *query, struct slot *slots, uint64_t sequence)
{
    struct slot *slot = &slots[(sequence - 1) & (launches.size - 1)];
    if (!hold_soon(slot))
        return NULL;
    if (slot->entry.sequence == sequence && is_asked_for(query, &slot->entry))
        return slot;
    let_go(slot);
    return NULL;
}

/* Moves back to the next launch that matches the query. */
static void seek(struct cursor *cursor, const struct launch_query *query)
{
    for (; cursor->sequence >= cursor->oldest; cursor->sequence--) {
        struct slot *slot = hold_wanted(query, cursor->slots, cursor->sequence);
        if (!slot)
            continue;
        cursor->time_ns = slot->entry.time_ns;
        let_go(slot);
        return;
    }
}

static size_t begin_reading(struct launch_record *record, const struct launch_query *query, struct cursor *cursors)
{
    size_t found = 0;
    if ((query->context && query->context != record->context) ||
        (query->device >= 0 && query->device != record->context->device))
        return 0;
    for (size_t i = 0; i <= NODES; i++) {
        struct cursor cursor = {.slots = __atomic_load_n(&record->rings[i].slots, __ATOMIC_ACQUIRE),
                                .sequence = __atomic_load_n(&record->rings[i].count, __ATOMIC_ACQUIRE)};
        cursor.oldest = cursor.sequence > launches.size ? cursor.sequence - launches.size + 1 : 1;
        if (!cursor.slots)
            continue;
        seek(&cursor, query);
        cursors[found++] = cursor;
    }
    return found;
}

/* Returns the cursor with the newest launch, NULL if all are exhausted. */
static struct cursor *newest(struct cursor *cursors, size_t count)
{
    struct cursor *newest = NULL;
    for (size_t i = 0; i < count; i++)
        if (cursors[i].sequence >= cursors[i].oldest && (!newest || cursors[i].time_ns > newest->time_ns))
            newest = &cursors[i];
    return newest;
}

size_t launch_read(const struct launch_query *query, struct launch_entry *out, struct stack *stacks, size_t max)
{
    struct launch_record *first = __atomic_load_n(&launches.records, __ATOMIC_ACQUIRE), *record;
    size_t found = 0, count = 0, records = 0;
    for (record = first; record; record = record->next)
        records++;
    struct cursor *cursors = malloc(records * (NODES + 1) * sizeof *cursors + 1), *next;
    for (record = cursors ? first : NULL; record; record = record->next)
        count += begin_reading(record, query, cursors + count);
    while (found < max && (next = newest(cursors, count)) != NULL) {
        struct slot *slot = hold_wanted(query, next->slots, next->sequence--);
        if (slot) {
            if (stacks)
                stacks[found] = slot->stack;
            out[found] = slot->entry;
            out[found++].slot = slot;
            let_go(slot);
        }
        seek(next, query);
    }
    free(cursors);
    return found;
}

int launch_read_marked(const struct launch_mark *mark, struct launch_entry *out, struct stack *stack)
{
    struct slot *slot = (struct slot *)(uintptr_t)mark->slot;
    int is_there = 0;
    if (!slot || !hold_soon(slot))
        return 0;
    if (slot->entry.turn == mark->turn && slot->entry.sequence) {
        *out = slot->entry;
        out->slot = slot;
        *stack = slot->stack;
        is_there = 1;
    }
    let_go(slot);
    return is_there;
}

size_t launch_read_arguments(const struct launch_entry *entry, uint8_t *out, size_t max)
{
    struct slot *slot = entry->slot;
    size_t near = 0, far = 0;
    if (!slot || !hold_soon(slot))
        return 0;
    if (slot->entry.turn == entry->turn) {
        near = at_most(entry->kept_bytes, max);
        far = at_most(slot->rest_bytes, max - near);
        memcpy(out, slot->entry.bytes, near);
        if (far)
            memcpy(out + near, slot->rest, far);
    }
    let_go(slot);
    return near + far;
}
