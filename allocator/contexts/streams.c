#include "contexts_internal.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>

struct entry {
    struct stream stream; /* first: other rooms hold a pointer to it */
    int is_used;          /* atomic; 0: unused, or a per-thread stream whose context has ended */
    struct entry *next;   /* in the list of all entries; constant */
    struct entry *chain;  /* next unused entry, or next of the thread's own */
    UT_hash_handle hh;    /* keyed by handle; not for per-thread streams */
};

static struct lock lock = LOCK(RANK_STREAMS); /* guards all of this */
static struct entry *all, *spares, *by_handle;

static uint64_t threads; /* atomic: number of threads that have used a per-thread stream */
static int is_closed;    /* atomic: set by contexts_close() */

struct own {
    uint64_t thread;     /* the calling thread's number, from 1; unique in this process */
    struct entry *first; /* its per-thread streams; other threads only clear is_used */
};
static HOT_TLS struct own own;

extern int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *object); /* of the C library */
extern char __dso_handle;

void stream_touch_begin(struct stream *stream)
{
    lock_take(&stream->touch);
}

int stream_touch_try(struct stream *stream)
{
    return lock_try(&stream->touch);
}

void stream_touch_end(struct stream *stream)
{
    lock_release(&stream->touch);
}

void stream_used_behind(struct stream *stream)
{
    uint64_t now = monotonic_ns();
    __atomic_store_n(&stream->behind_ns, now, __ATOMIC_RELEASE);
    __atomic_store_n(&stream->context->legacy.behind_ns, now, __ATOMIC_RELEASE);
}

uint64_t stream_behind_ns(const struct stream *stream)
{
    return __atomic_load_n(&stream->behind_ns, __ATOMIC_ACQUIRE);
}

void contexts_close(void)
{
    __atomic_store_n(&is_closed, 1, __ATOMIC_RELEASE);
}

int stream_is_named_here(const struct stream *stream)
{
    return !stream->thread || stream->thread == own.thread;
}

int stream_is_open(CUstream handle)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver->cuStreamIsCapturing(handle, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE;
}

struct scope scope_enter_stream(const struct stream *stream)
{
    struct scope scope = {.pushed = 0};
    if (!stream || !stream_is_named_here(stream))
        return scope;
    scope = scope_enter(stream->within);
    if (scope.pushed && stream_is_open(stream->handle))
        return scope;
    scope_leave(scope);
    return (struct scope){.pushed = 0};
}

size_t stream_refs_add(struct stream_ref **refs, size_t count, size_t most, struct stream *stream)
{
    const struct stream_ref added = stream_ref(stream);
    for (size_t i = 0; i < count; i++) {
        if (stream_ref_is(&(*refs)[i], &added))
            return count;
    }
    struct stream_ref *grown = count < most ? realloc(*refs, (count + 1) * sizeof *grown) : NULL;
    if (!grown)
        return 0;
    *refs = grown;
    grown[count] = added;
    return count + 1;
}

/* ---- entries ---- */

static struct entry *take_spare(void)
{
    lock_expect(RANK_STREAMS);
    struct entry *entry = spares;
    if (entry) {
        spares = entry->chain;
    } else if ((entry = calloc(1, sizeof *entry)) != NULL) {
        lock_init(&entry->stream.touch, RANK_TOUCH);
        entry->next = all;
        all = entry;
    }
    return entry;
}

static void give_spare(struct entry *entry)
{
    lock_expect(RANK_STREAMS);
    entry->chain = spares;
    spares = entry;
}

static void use(struct entry *entry, struct context *within, CUstream handle, uint64_t thread)
{
    lock_expect(RANK_STREAMS);
    assert(!entry->is_used);
    entry->stream.context = context_meant(within);
    entry->stream.within = within;
    entry->stream.handle = handle;
    entry->stream.thread = thread;
    __atomic_store_n(&entry->is_used, 1, __ATOMIC_RELEASE);
}

/* Cached pointers to it are recognised by their old generation. */
static void forget(struct stream *stream)
{
    __atomic_add_fetch(&stream->generation, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&stream->books, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->tracked, 0, __ATOMIC_RELAXED);
}

/* Removes the entry from the table. */
static void retire(struct entry *entry)
{
    lock_expect(RANK_STREAMS);
    __atomic_store_n(&entry->is_used, 0, __ATOMIC_RELEASE);
    forget(&entry->stream);
    if (!entry->stream.thread) {
        if (entry->hh.tbl)
            HASH_DEL(by_handle, entry);
        give_spare(entry);
    } /* a per-thread entry stays in its thread's list and is reused there */
}

void streams_forget(struct context *context)
{
    forget(&context->legacy);
    HOLD(&lock);
    for (struct entry *entry = all; entry; entry = entry->next) {
        if (entry->is_used && (entry->stream.context == context || entry->stream.within == context))
            retire(entry);
    }
}

/* ---- streams created by the program ---- */

static struct entry *find(CUstream handle)
{
    lock_expect(RANK_STREAMS);
    struct entry *entry;
    HASH_FIND_PTR(by_handle, &handle, entry);
    return entry;
}

/* Tells the other rooms that a stream ends, then forgets it. */
static void end(struct entry *entry)
{
    stream_touch_begin(&entry->stream);
    contexts_events->stream_ends(&entry->stream);
    lock_take(&lock);
    if (__atomic_load_n(&entry->is_used, __ATOMIC_RELAXED))
        retire(entry);
    lock_release(&lock);
    stream_touch_end(&entry->stream);
    contexts_changed();
}

/* `near`: the context to make current for the query, since some drivers only answer then; NULL: the caller's current one, or
 * none, as where a program frees on a stream without one. */
static struct context *within_which(CUstream handle, struct context *near)
{
    CUcontext context = NULL;
    struct context *here = near ? near : context_entry();
    if (!here)
        return driver->cuStreamGetCtx(handle, &context) == CUDA_SUCCESS ? context_entry_of(context) : NULL;
    struct scope scope = scope_enter(here); /* also valid while the program captures */
    CUresult result = driver->cuStreamGetCtx(handle, &context);
    scope_leave(scope);
    if (result == CUDA_SUCCESS)
        return context_entry_of(context);
    return result == CUDA_ERROR_INVALID_HANDLE ? NULL : here; /* the driver can't tell: assume the context that was current */
}

static struct stream *look_up(CUstream handle, struct context *near)
{
    lock_take(&lock);
    struct entry *entry = find(handle);
    int is_certain = entry && !context_may_have_ended(entry->stream.within);
    lock_release(&lock);
    if (is_certain)
        return &entry->stream;
    struct context *within = within_which(handle, near);
    if (!within)
        return NULL;
    HOLD(&lock);
    entry = find(handle);
    if (entry && entry->stream.within != within && context_may_have_ended(entry->stream.within)) {
        HASH_DEL(by_handle, entry); /* its stream has ended with its context, where other threads may still look at it */
        entry->hh.tbl = NULL;
        entry = NULL;
    }
    if (!entry && (entry = take_spare()) != NULL) {
        use(entry, within, handle, 0);
        HASH_ADD_PTR(by_handle, stream.handle, entry);
        if (!entry->hh.tbl) { /* no memory for the table */
            entry->is_used = 0;
            give_spare(entry);
            entry = NULL;
        }
    }
    return entry ? &entry->stream : NULL;
}

/* A stream that the calling thread has resolved. */
struct latest {
    CUstream handle;
    struct stream *stream;
    uint64_t epoch;
};

/* Never inlined: its registers and frame would cost the fast path more than the rest of it. */
static __attribute__((noinline)) struct stream *look_up_and_keep(CUstream handle, struct context *near, struct latest *latest)
{
    uint64_t epoch = contexts_epoch_now();
    struct stream *stream = look_up(handle, near);
    if (stream)
        *latest = (struct latest){.handle = handle, .stream = stream, .epoch = epoch};
    return stream;
}

static inline struct stream *explicit_stream(CUstream handle, struct context *near)
{
    static HOT_TLS struct latest latest[4];
    struct latest *slot = &latest[((uintptr_t)handle >> 4 ^ (uintptr_t)handle >> 10) & 3];
    if (__builtin_expect(slot->handle == handle && slot->epoch == contexts_epoch_now(), 1))
        return slot->stream;
    return look_up_and_keep(handle, near, slot);
}

void stream_ended(CUstream handle)
{
    if (stream_is_default(handle))
        return;
    lock_take(&lock);
    int is_known = find(handle) != NULL;
    lock_release(&lock);
    struct stream *stream = is_known ? look_up(handle, NULL) : NULL;
    if (stream)
        end((struct entry *)stream);
}

void streams_end_within(struct context *within)
{
    struct entry *entry;
    stream_touch_begin(&within->legacy);
    contexts_events->stream_ends(&within->legacy);
    forget(&within->legacy);
    stream_touch_end(&within->legacy);
    do { /* one at a time: end() takes the lock itself */
        lock_take(&lock);
        for (entry = all; entry && !(entry->is_used && entry->stream.within == within && stream_is_named_here(&entry->stream));)
            entry = entry->next;
        lock_release(&lock);
        if (entry)
            end(entry);
    } while (entry);
    contexts_changed();
}

/* ---- whether they are idle ---- */

/* CUDA_ERROR_UNKNOWN: it cannot be asked. */
static CUresult ask(struct stream *stream)
{
    if (!stream_is_named_here(stream) || !stream_touch_try(stream))
        return CUDA_ERROR_UNKNOWN;
    struct scope scope = scope_enter_stream(stream);
    CUresult result = scope.pushed ? driver->cuStreamQuery(stream->handle) : CUDA_ERROR_UNKNOWN;
    scope_leave(scope);
    stream_touch_end(stream);
    return result;
}

/* The next stream of the context after `previous` (NULL: the first). */
static struct entry *next_of(const struct context *context, const struct entry *previous)
{
    HOLD(&lock);
    struct entry *entry = previous ? previous->next : all;
    while (entry && !(entry->is_used && entry->stream.context == context))
        entry = entry->next;
    return entry;
}

int context_is_idle(struct context *context)
{
    if (ask(&context->legacy) != CUDA_SUCCESS)
        return 0;
    for (struct entry *entry = next_of(context, NULL); entry; entry = next_of(context, entry)) {
        if (ask(&entry->stream) != CUDA_SUCCESS && entry->is_used)
            return 0;
    }
    return 1;
}

int context_is_busy(struct context *context)
{
    int is_busy = ask(&context->legacy) == CUDA_ERROR_NOT_READY;
    for (struct entry *entry = next_of(context, NULL); entry && !is_busy; entry = next_of(context, entry))
        is_busy = ask(&entry->stream) == CUDA_ERROR_NOT_READY;
    return is_busy;
}

/* ---- per-thread streams ---- */

/* Runs when a thread ends, before the driver's own thread cleanup: that runs from pthread keys, or was registered before the
 * thread first used a stream. */
static void thread_ends(void *unused)
{
    (void)unused;
    struct entry *next;
    for (struct entry *entry = own.first; entry; entry = next) {
        next = entry->chain;
        if (__atomic_load_n(&is_closed, __ATOMIC_ACQUIRE))
            continue;
        if (__atomic_load_n(&entry->is_used, __ATOMIC_ACQUIRE))
            end(entry);
        HOLD(&lock);
        give_spare(entry);
    }
    own.first = NULL;
}

static struct entry *make_own(struct context *within)
{
    if (!own.thread) {
        own.thread = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
        __cxa_thread_atexit_impl(thread_ends, NULL, &__dso_handle);
    }
    HOLD(&lock);
    struct entry *entry = own.first;
    while (entry && entry->is_used)
        entry = entry->chain;
    if (!entry && (entry = take_spare()) != NULL) {
        entry->chain = own.first;
        own.first = entry;
    }
    if (entry)
        use(entry, within, CU_STREAM_PER_THREAD, own.thread);
    return entry;
}

static struct stream *per_thread_stream(struct context *within)
{
    struct entry *entry = own.first;
    while (entry && !(__atomic_load_n(&entry->is_used, __ATOMIC_ACQUIRE) && entry->stream.within == within))
        entry = entry->chain;
    if (!entry)
        entry = make_own(within);
    return entry ? &entry->stream : NULL;
}

/* ---- resolving handles ---- */

static struct stream *default_stream(struct context *within, CUstream handle)
{
    return handle == CU_STREAM_PER_THREAD ? per_thread_stream(within) : &within->legacy;
}

static __attribute__((noinline)) struct stream *default_in(struct context *context, CUstream handle)
{
    return default_stream(context_within(context), handle);
}

static __attribute__((noinline)) struct stream *default_here(CUstream handle)
{
    struct context *within = context_entry();
    return within ? default_stream(within, handle) : NULL;
}

struct stream *stream_in(struct context *context, CUstream handle)
{
    return stream_is_default(handle) ? default_in(context, handle) : explicit_stream(handle, context);
}

struct stream *stream_resolve(CUstream handle)
{
    return stream_is_default(handle) ? default_here(handle) : explicit_stream(handle, NULL);
}
