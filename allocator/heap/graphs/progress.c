/*
 * Which captures are in progress. A capture ends in more ways than by cuStreamEndCapture: with its stream, its context or a
 * reset. So those that have begun are a set of streams, and each is asked of the driver where it matters.
 */
#include "graphs.h"

#include "base/aside.h"
#include "base/clock.h"

#define HELD_OFF_MS 50 /* more than a thread needs to call the driver; the device may be waiting for the host */

static struct lock lock = LOCK(RANK_CAPTURES);
static struct stream_ref *begun; /* under the lock */
static size_t count;             /* of those; under the lock */
static int has_lost;             /* one could not be noted, for want of host memory; under the lock */
static int are_seen;             /* every capture that begins is noted; under the lock */
size_t heap_capture_count;       /* `count`, and one more if one was lost */

static void set_count(size_t now)
{
    lock_expect(RANK_CAPTURES);
    count = now;
    __atomic_store_n(&heap_capture_count, now + (has_lost != 0), __ATOMIC_RELAXED);
    if (heap_may_capture() || !are_seen)
        heap_mark(RARE_CAPTURES);
    else
        heap_unmark(RARE_CAPTURES);
}

void heap_captures_are_seen(void)
{
    HOLD(&lock);
    are_seen = 1;
    set_count(count);
}

static int held_off; /* atomic: calls of heap_synchronise() in progress */

static void await_calls(void *unused)
{
    const uint64_t until = monotonic_ms() + HELD_OFF_MS;
    (void)unused;
    while (__atomic_load_n(&held_off, __ATOMIC_SEQ_CST) && monotonic_ms() < until)
        aside_sleep(50);
}

static void note(struct stream *stream)
{
    HOLD(&lock);
    size_t grown = stream_refs_add(&begun, count, SIZE_MAX, stream);
    has_lost |= !grown;
    set_count(grown ? grown : count);
}

void heap_capture_begins(struct stream *stream)
{
    note(stream);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* either it sees the other, or the other sees it */
    if (__builtin_expect(__atomic_load_n(&held_off, __ATOMIC_SEQ_CST) != 0, 0))
        aside_call(await_calls, NULL);
}

static void forget(const struct stream_ref *ended)
{
    size_t i = 0;
    HOLD(&lock);
    while (i < count && !stream_ref_is(&begun[i], ended))
        i++;
    if (i == count)
        return;
    begun[i] = begun[count - 1];
    set_count(count - 1);
}

void heap_capture_ends(struct stream *stream)
{
    struct stream_ref ref = stream_ref(stream);
    if (heap_may_capture())
        forget(&ref);
}

int capture_has_begun(const struct stream *stream)
{
    int has = 0;
    HOLD(&lock);
    for (size_t i = 0; i < count && !has; i++)
        has = begun[i].stream == stream && stream_ref_is_there(&begun[i]);
    return has;
}

/* By a thread that can name the stream, which does not end meanwhile. */
static int captures(CUstream handle)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver->cuStreamIsCapturing(handle, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void heap_capture_may_end(struct stream *stream)
{
    if (!captures(stream->handle))
        heap_capture_ends(stream);
}

/* A stream that another thread is at, or that only its own thread can name, counts as capturing. One that doesn't capture is
 * forgotten while it is touched: right after that it may begin again. */
static int goes_on(const struct stream_ref *ref)
{
    if (!stream_ref_is_there(ref) || !context_is_alive(ref->stream->context)) {
        forget(ref);
        return 0;
    }
    if (!stream_is_named_here(ref->stream) || !stream_touch_try(ref->stream))
        return 1;
    struct scope scope = scope_enter(ref->stream->within);
    int is = stream_ref_is_there(ref) && (!scope.pushed || captures(ref->stream->handle));
    scope_leave(scope);
    if (!is)
        forget(ref);
    stream_touch_end(ref->stream);
    return is;
}

int heap_captures(void)
{
    struct stream_ref latest;
    while (heap_may_capture()) {
        lock_take(&lock);
        int is_empty = count == 0, is_unsure = has_lost;
        latest = is_empty ? stream_ref(NULL) : begun[count - 1];
        lock_release(&lock);
        if (is_empty)
            return is_unsure;
        if (goes_on(&latest))
            return 1;
    }
    return 0;
}

CUresult heap_synchronise(void)
{
    __atomic_add_fetch(&held_off, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    CUresult result = heap_captures() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : driver->cuCtxSynchronize();
    __atomic_sub_fetch(&held_off, 1, __ATOMIC_RELEASE);
    return result;
}
