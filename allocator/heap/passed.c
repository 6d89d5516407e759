#include "passed.h"

#include "internal.h"
#include "base/output.h"
#include "base/rules.h"
#include "stacks/labels.h"
#include "stacks/stack.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1 /* an element that could not be added has hh.tbl == NULL */
#include <uthash.h>

int passed_is_wanted;

static struct rules only, skip; /* constant after passed_open() */

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
        [PASSED_NO_MEMORY] = "for whose pages of 2 MiB there was no room (fallback=on)",
        [PASSED_SMALL] = "smaller than min_size",
        [PASSED_SAMPLE] = "that sample left out",
        [PASSED_LIMIT] = "beyond max_guarded",
        [PASSED_SKIPPED] = "that skip names",
        [PASSED_NOT_NAMED] = "that only does not name",
        [PASSED_EXPORTED] = "that other processes may open (NCCL, NVSHMEM, ipc=driver)",
    };
    return words[why];
}

static void count(enum passed_reason why, uint64_t size, int64_t live)
{
    __atomic_fetch_add(&figures[why].live_count, (uint64_t)live, __ATOMIC_RELAXED);
    __atomic_fetch_add(&figures[why].live_bytes, (uint64_t)live * size, __ATOMIC_RELAXED);
    if (live < 0)
        return;
    __atomic_fetch_add(&figures[why].count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&figures[why].bytes, size, __ATOMIC_RELAXED);
}

/* ---- the buffers ---- */

struct passed {
    UT_hash_handle hh;
    uint64_t address, size;
    uint64_t number; /* from 1 */
    enum passed_reason why;
    int device;
    struct context *context;
    int is_ours;  /* passed_or_guarded() has allocated it */
    int is_async; /* in the order of a stream */
    struct recorded *recorded;
    size_t recorded_count;
};

/* Guards the table and what is in it: an entry belongs to the thread that has taken it out. */
static struct lock lock = LOCK(RANK_PASSED);
static struct passed *table;
static uint64_t live; /* atomic: the table's size */

/* number: 0 for whatever is there. */
static struct passed *take(uint64_t address, uint64_t number)
{
    struct passed *found = NULL;
    if (!__atomic_load_n(&live, __ATOMIC_ACQUIRE))
        return NULL;
    lock_take(&lock);
    HASH_FIND(hh, table, &address, sizeof address, found);
    if (found && number && found->number != number)
        found = NULL;
    if (found) {
        HASH_DEL(table, found);
        __atomic_fetch_sub(&live, 1, __ATOMIC_RELEASE);
    }
    lock_release(&lock);
    if (found)
        count(found->why, found->size, -1);
    return found;
}

static void drop(struct passed *passed)
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
               "one: %zu bytes), and counted at exit; fallback=off fails instead. min_size=, sample= and max_guarded= choose "
               "what is guarded; `cufence run --estimate` says what fits\n",
               wanted->device, (unsigned long long)stats.live_buffers, (unsigned long long)stats.live_bytes,
               (unsigned long long)stats.mapped_bytes, free_bytes, all_bytes, wanted->size);
}

/* Takes `passed` over. Returns 0 if it could not be added. */
static int put(struct passed *passed)
{
    static uint64_t numbers;
    struct passed *stale = NULL;
    lock_take(&lock);
    passed->number = ++numbers;
    HASH_FIND(hh, table, &passed->address, sizeof passed->address, stale);
    if (stale) { /* its free was not seen, its context was destroyed; or another thread is just about to say so */
        HASH_DEL(table, stale);
        __atomic_fetch_sub(&live, 1, __ATOMIC_RELEASE);
    }
    HASH_ADD(hh, table, address, sizeof passed->address, passed);
    int is_added = passed->hh.tbl != NULL;
    if (is_added)
        __atomic_fetch_add(&live, 1, __ATOMIC_RELEASE);
    lock_release(&lock);
    if (stale) {
        count(stale->why, stale->size, -1);
        drop(stale);
    }
    if (!is_added)
        drop(passed);
    return is_added;
}

static int remember(uint64_t address, const struct heap_request *wanted, enum passed_reason why, int is_ours, int is_async)
{
    static int has_said; /* atomic */
    if (why == PASSED_NO_MEMORY && !__atomic_exchange_n(&has_said, 1, __ATOMIC_RELAXED))
        say_no_memory(wanted);
    struct passed *passed = calloc(1, sizeof *passed);
    if (passed) {
        passed->address = address;
        passed->size = wanted->size;
        passed->why = why;
        passed->device = wanted->device;
        passed->context = wanted->context;
        passed->is_ours = is_ours;
        passed->is_async = is_async;
    }
    count(why, wanted->size, 1);
    if (passed && put(passed))
        return 1;
    __atomic_fetch_sub(&figures[why].live_count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&figures[why].live_bytes, wanted->size, __ATOMIC_RELAXED);
    return 0;
}

int passed_add(uint64_t address, const struct heap_request *wanted, enum passed_reason why)
{
    return remember(address, wanted, why, 0, 0);
}

uint64_t passed_number(uint64_t address)
{
    uint64_t number = 0;
    if (__atomic_load_n(&live, __ATOMIC_ACQUIRE)) {
        struct passed *found;
        lock_take(&lock);
        HASH_FIND(hh, table, &address, sizeof address, found);
        number = found ? found->number : 0;
        lock_release(&lock);
    }
    return number;
}

int passed_remove(uint64_t address, uint64_t number)
{
    struct passed *found = take(address, number);
    if (found)
        drop(found);
    return found != NULL;
}

void passed_context_gone(const struct context *context)
{
    struct passed *passed, *next;
    if (!__atomic_load_n(&live, __ATOMIC_ACQUIRE))
        return;
    lock_take(&lock);
    HASH_ITER(hh, table, passed, next)
    {
        if (passed->context != context)
            continue;
        HASH_DEL(table, passed);
        __atomic_fetch_sub(&live, 1, __ATOMIC_RELEASE);
        count(passed->why, passed->size, -1);
        drop(passed);
    }
    lock_release(&lock);
}

struct unguarded_buffers passed_live(int device, uint64_t address)
{
    struct unguarded_buffers sum = {0};
    lock_take(&lock);
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
    lock_release(&lock);
    return sum;
}

/* ---- the choice ---- */

void passed_open(void)
{
    rules_parse(&only, heap_options->only, strlen(heap_options->only)); /* options.c has accepted them */
    rules_parse(&skip, heap_options->skip, strlen(heap_options->skip));
    passed_is_wanted =
        only.count || skip.count || heap_options->sample > 1 || heap_options->min_size || heap_options->max_guarded;
}

/* Guarded memory in use on the device: what is idle can be released. */
static uint64_t guarded_bytes(int device)
{
    cufence_stats stats;
    return heap_stats(device, &stats) == CUFENCE_OK && stats.mapped_bytes > stats.idle_bytes
               ? stats.mapped_bytes - stats.idle_bytes
               : 0;
}

static int is_sampled(void)
{
    static uint64_t allocations; /* atomic */
    uint64_t mixed = __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9); /* splitmix64: no stride of the program's fits it */
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (mixed ^ mixed >> 31) % heap_options->sample == 0;
}

enum { FITS_ONLY = 1, FITS_SKIP = 2, FITS = 3 };

static unsigned fit(enum rule_kind kind, const char *text)
{
    return (rules_fit(&only, kind, text) ? FITS_ONLY : 0u) | (rules_fit(&skip, kind, text) ? FITS_SKIP : 0u);
}

/* Which rules the stack fits. Reading names takes milliseconds, so the answer is kept for each stack. */
static unsigned fit_stack(const void *frame)
{
    static uint64_t known[4096]; /* atomic: the hash of a stack with the answer in its lowest bits; 0: none */
    struct stack stack;
    stack_capture_native(&stack, frame);
    stack.python = stack_capture_python();
    uint64_t hash = (stack_native_hash(&stack) + stack.python) * UINT64_C(0x9e3779b97f4a7c15) | 4;
    uint64_t *entry = &known[hash >> 52], word = __atomic_load_n(entry, __ATOMIC_RELAXED);
    if ((word & ~(uint64_t)FITS) == (hash & ~(uint64_t)FITS))
        return word & FITS;
    struct stack_frame frames[2 * STACK_READ];
    size_t native = stack_native_frames(&stack, frames, STACK_READ);
    size_t all = native + stack_interned_frames(stack.python, frames + native, STACK_READ);
    unsigned answer = native ? fit(RULE_LIB, frames[0].module) : 0;
    for (size_t i = 0; i < all; i++)
        answer |= fit(RULE_FUNC, frames[i].function) | fit(RULE_FILE, frames[i].file);
    __atomic_store_n(entry, (hash & ~(uint64_t)FITS) | answer, __ATOMIC_RELAXED);
    return answer;
}

enum passed_reason passed_judge(const struct heap_request *wanted, const void *frame)
{
    const unsigned stacks = 1u << RULE_FUNC | 1u << RULE_FILE | 1u << RULE_LIB;
    unsigned answer = 0;
    if (wanted->size < heap_options->min_size)
        return PASSED_SMALL;
    if (only.count || skip.count)
        answer = fit(RULE_LABEL, label_current());
    if ((only.kinds | skip.kinds) & stacks)
        answer |= fit_stack(frame);
    if (answer & FITS_SKIP)
        return PASSED_SKIPPED;
    if (only.count && !(answer & FITS_ONLY))
        return PASSED_NOT_NAMED;
    if (heap_options->sample > 1 && !is_sampled())
        return PASSED_SAMPLE;
    uint64_t pages = (wanted->size + heap_granularity - 1) / heap_granularity;
    if (heap_options->max_guarded && guarded_bytes(wanted->device) + pages * heap_granularity > heap_options->max_guarded)
        return PASSED_LIMIT;
    return PASSED_NOT;
}

/* ---- the driver's memory for the C API ---- */

/* Memory of a graph stays with the graph, which the driver's own allocations do not do: it is always guarded. */
static int is_of_graph(const struct heap_request *wanted)
{
    struct books *books = books_make(wanted->context);
    return heap_captures() ||
           (wanted->stream && books && wanted->stream->context == wanted->context && pool_of(books, wanted->stream));
}

void passed_trim(int device)
{
    CUmemoryPool pool = NULL;
    uint64_t all = 0;
    for (int why = PASSED_NOT + 1; why < PASSED_REASONS; why++)
        all += passed_figures((enum passed_reason)why).count;
    if (all && driver->cuDeviceGetMemPool && driver->cuMemPoolTrimTo &&
        driver->cuDeviceGetMemPool(&pool, device) == CUDA_SUCCESS)
        driver->cuMemPoolTrimTo(pool, 0);
}

static CUresult ask_driver(CUdeviceptr *out, const struct heap_request *wanted, int *is_async)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    struct scope scope = scope_enter(wanted->stream ? wanted->stream->within : wanted->context);
    if (!scope.pushed) {
        scope_leave(scope);
        return result;
    }
    if (wanted->stream && driver->cuMemAllocAsync && driver->cuMemFreeAsync && driver->cuStreamWaitEvent)
        result = driver->cuMemAllocAsync(out, wanted->size, wanted->stream->handle);
    *is_async = result == CUDA_SUCCESS;
    if (result == CUDA_ERROR_NOT_SUPPORTED && driver->cuMemAlloc && driver->cuMemFree)
        result = driver->cuMemAlloc(out, wanted->size);
    scope_leave(scope);
    return result;
}

/* Waits for the work of every context. Returns 0 where a capture forbids that, or a wait fails. */
static int synchronise_all(void)
{
    int is_done = !heap_captures();
    visit_begin();
    for (struct context *context = context_next(NULL); context && is_done; context = context_next(context)) {
        const struct books *books = books_of(context);
        struct scope scope = scope_visit(context);
        if (scope.hold != CONTEXT_HAS_ENDED)
            is_done = !(books && __atomic_load_n(&books->active_pools, __ATOMIC_ACQUIRE)) && scope.pushed &&
                      driver->cuCtxSynchronize() == CUDA_SUCCESS;
        scope_leave(scope);
    }
    visit_end();
    return is_done;
}

/* Frees what no stream's order is known for. The driver does not wait for the users of stream-ordered memory. What cannot be
 * waited for stays allocated. */
static void free_now(const struct passed *passed)
{
    if (!synchronise_all())
        return;
    struct scope scope = scope_enter(passed->context);
    if (scope.pushed)
        driver->cuMemFree((CUdeviceptr)passed->address);
    scope_leave(scope);
}

/* Returns 0 if the driver has no memory either. Sets no error: the caller has a better one. */
static int leave(void **pointer, const struct heap_request *wanted, enum passed_reason why)
{
    CUdeviceptr address = 0;
    int is_async = 0;
    if (ask_driver(&address, wanted, &is_async) != CUDA_SUCCESS)
        return 0;
    if (!remember(address, wanted, why, 1, is_async)) {
        const struct passed lost = {.address = address, .context = wanted->context};
        free_now(&lost);
        return 0;
    }
    *pointer = (void *)(uintptr_t)address;
    return 1;
}

/* The driver's own pool may have a little more room than it calls free. */
#define POOL_ROOM ((size_t)64 << 20)

int passed_may_fit(const struct heap_request *wanted)
{
    size_t free_bytes = 0, all_bytes = 0;
    if (wanted->device != wanted->context->device)
        return 1;
    struct scope scope = scope_enter(wanted->context);
    int is_known = scope.pushed && driver->cuMemGetInfo(&free_bytes, &all_bytes) == CUDA_SUCCESS;
    scope_leave(scope);
    return !is_known || wanted->size <= free_bytes + POOL_ROOM;
}

cufence_status passed_or_guarded(void **pointer, const struct heap_request *wanted, const void *frame)
{
    enum passed_reason why = passed_why(wanted, frame);
    if (why != PASSED_NOT && wanted->size && !is_of_graph(wanted) && leave(pointer, wanted, why))
        return CUFENCE_OK;
    cufence_status status = heap_allocate(pointer, wanted, NULL);
    if (__builtin_expect(status != CUFENCE_ERROR_OUT_OF_MEMORY, 1) || !heap_options->fallback)
        return status;
    if (passed_may_fit(wanted) && !is_of_graph(wanted) && leave(pointer, wanted, PASSED_NO_MEMORY))
        return CUFENCE_OK;
    struct heap_request again = *wanted;
    again.is_last_try = 1;
    return heap_allocate(pointer, &again, NULL);
}

/* Makes a stream wait for what was submitted to another one. Returns 0 if that cannot be done. */
static int wait_for(struct stream *stream, const struct recorded *other)
{
    CUevent event;
    if (__atomic_load_n(&other->stream->generation, __ATOMIC_ACQUIRE) != other->generation)
        return 0; /* destroyed, and its work may go on */
    if (other->stream == stream)
        return 1;
    if (!stream_is_named_here(other->stream) || other->stream->context != stream->context)
        return 0;
    struct scope scope = scope_enter(other->stream->within); /* a green context has default streams of its own */
    int is_done = scope.pushed && driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
    int is_made = is_done;
    is_done = is_done && driver->cuEventRecord(event, other->stream->handle) == CUDA_SUCCESS;
    scope_leave(scope);
    is_done = is_done && driver->cuStreamWaitEvent(stream->handle, event, 0) == CUDA_SUCCESS;
    if (is_made)
        driver->cuEventDestroy(event);
    return is_done;
}

static int free_in_order(const struct passed *passed, struct stream *stream)
{
    if (!passed->is_async || !stream || stream->context != passed->context)
        return 0;
    struct scope scope = scope_enter(stream->within);
    int is_done = scope.pushed;
    for (size_t i = 0; i < passed->recorded_count && is_done; i++)
        is_done = wait_for(stream, &passed->recorded[i]);
    if (is_done)
        is_done = driver->cuMemFreeAsync((CUdeviceptr)passed->address, stream->handle) == CUDA_SUCCESS;
    scope_leave(scope);
    return is_done;
}

int passed_free(void *pointer, struct context *context, CUstream handle)
{
    struct passed *passed = take((uint64_t)(uintptr_t)pointer, 0);
    if (!passed)
        return 0;
    if (!free_in_order(passed, context ? stream_in(context, handle) : stream_resolve(handle)))
        free_now(passed);
    drop(passed);
    return 1;
}

/* Caller holds the lock. stream: NULL if it is not known. */
static void record(struct passed *passed, struct stream *stream)
{
    struct recorded *grown = NULL;
    const struct recorded use = {stream, stream ? __atomic_load_n(&stream->generation, __ATOMIC_ACQUIRE) : 0};
    for (size_t i = 0; i < passed->recorded_count; i++) {
        if (passed->recorded[i].stream == stream && passed->recorded[i].generation == use.generation)
            return;
    }
    if (stream)
        grown = realloc(passed->recorded, (passed->recorded_count + 1) * sizeof *grown);
    if (grown) {
        grown[passed->recorded_count++] = use;
        passed->recorded = grown;
    } else {
        passed->is_async = 0; /* freed once the context is idle */
    }
}

int passed_record(void *pointer, CUstream handle)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    struct passed *found = NULL;
    if (!__atomic_load_n(&live, __ATOMIC_ACQUIRE))
        return 0;
    struct stream *stream = stream_resolve(handle);
    lock_take(&lock);
    HASH_FIND(hh, table, &address, sizeof address, found);
    if (found && found->is_ours)
        record(found, stream);
    lock_release(&lock);
    return found != NULL;
}
