/* Slack watch: when the pattern of a block is written and checked. */
#include "watch.h"

#include "base/aside.h"

#include <sched.h>
#include <stdlib.h>

#define AWAIT_SPINS 32u   /* how often it is asked at once whether a launch is over: many take 10 to 20 us. Then */
#define AWAIT_US 10u      /* after this time, with the timer's slack each 60 us, */
#define AWAIT_TIMES 64u   /* so for 4 ms in all, */
#define AWAIT_FREED 1600u /* and 0.1 s for the memory that cuMemFree frees: its call waits for the device anyhow; */
#define IN_VAIN_MOST 8u   /* and this often in vain */

static int has_layout(const struct slack *slack, uint64_t address, uint64_t size)
{
    return slack->layout.address == address && __atomic_load_n(&slack->layout.size, __ATOMIC_RELAXED) == size;
}

/* A launch out of turn: allowed now and then, so that none is needed for each allocation. */
static int take_credit(struct slack_queue *queue)
{
    if (queue->credit < tunables.slack_every)
        return 0;
    queue->credit -= (unsigned)tunables.slack_every;
    return 1;
}

static void earn(struct slack_queue *queue)
{
    queue->credit += queue->credit < CREDIT_MOST * tunables.slack_every;
}

/* ---- launches ---- */

void slack_flush_touched(struct freelist *list, struct stream *stream, int is_idle)
{
    lock_expect(RANK_TOUCH);
    struct watch *watch = __atomic_load_n(&list->slack_queue, __ATOMIC_ACQUIRE) ? watch_of(list->books) : NULL;
    if (!watch || __atomic_load_n(&list->books->context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return;
    SCOPE scope = scope_enter_stream(stream);
    if (scope.pushed)
        slack_launch(watch, list, stream, is_idle);
}

/* Memory of cuMemAlloc, which any stream may use: its pattern is written on cufence's own stream, which no other waits for. */
static void flush_own(struct watch *watch, struct freelist *list)
{
    SCOPE scope = scope_enter(list->books->context);
    struct stream *own = scope.pushed ? books_stream(list->books) : NULL;
    if (!own)
        return;
    stream_touch_begin(own);
    slack_launch(watch, list, own, 0);
    stream_touch_end(own);
}

/* Launches what waits in the list's queue, if the calling thread may use its stream now. */
static void flush(struct watch *watch, struct freelist *list)
{
    if (list == &list->books->shared) {
        flush_own(watch, list);
        return;
    }
    struct stream *stream = __atomic_load_n(&list->stream, __ATOMIC_RELAXED);
    if (!stream || !stream_touch_try(stream))
        return;
    if (__atomic_load_n(&list->stream, __ATOMIC_RELAXED) == stream)
        slack_flush_touched(list, stream, 0);
    stream_touch_end(stream);
}

/* ---- a block is handed out ---- */

static struct slack *slack_of(struct watch *watch, struct block *block)
{
    lock_expect(RANK_SLACK);
    struct slack *slack = block->slack;
    if (!slack && (slack = calloc(1, sizeof *slack)) != NULL) {
        slack->block = block;
        block->slack = slack;
        DL_APPEND(watch->slacks, slack);
    }
    return slack;
}

/* Queues what the new buffer needs. Returns whether it is to be launched now. Caller holds the lock. */
static int prepare(struct watch *watch, struct freelist *list, struct slack *slack, struct slack_layout layout, int is_fresh)
{
    lock_expect(RANK_SLACK);
    struct slack_queue *queue = slack_queue_of(list);
    if (!queue) {
        slack_discard(slack);
        return 0;
    }
    int is_checked = slack->queue == queue && slack->does == PATTERN_CHECK;
    int is_same = has_layout(slack, layout.address, layout.size);
    if (is_same)
        return is_checked && take_credit(queue);
    int is_now = is_fresh || take_credit(queue);
    slack->checked = slack->layout;
    slack_dequeue(slack);
    if (!(is_checked && is_now)) {
        watch->missed += slack->buffers != 0;
        slack->buffers = 0;
    }
    slack->is_written = 0;
    slack->layout.address = layout.address;
    __atomic_store_n(&slack->layout.size, layout.size, __ATOMIC_RELAXED);
    slack_enqueue(queue, slack, is_checked && is_now ? PATTERN_CHECK | PATTERN_WRITE : PATTERN_WRITE);
    return is_now || queue->count >= tunables.slack_every;
}

/* If another thread is just launching the block on the stream of the list, waits for that: what the program submits comes
 * behind it. */
static void await_submission(struct freelist *list, const struct slack *slack)
{
    const struct batch *batch = __atomic_load_n(&slack->batch, __ATOMIC_RELAXED);
    if (__builtin_expect(!batch || !__atomic_load_n(&batch->is_launching, __ATOMIC_RELAXED), 1))
        return;
    struct stream *stream = list == &list->books->shared ? &list->books->own : __atomic_load_n(&list->stream, __ATOMIC_RELAXED);
    if (!stream)
        return;
    stream_touch_begin(stream);
    stream_touch_end(stream);
}

/* The program may write where the last buffer's pattern is as soon as it has the block: what could not be launched by then must
 * not be checked. */
static void withdraw_check(struct watch *watch, struct slack *slack)
{
    HOLD(&watch->lock);
    if (slack->queue && slack->does == (PATTERN_CHECK | PATTERN_WRITE)) {
        slack->does = PATTERN_WRITE;
        slack->buffers = 0;
        watch->missed++;
    }
}

/* cuMemAlloc and cuMemFree may take a while: what uses the memory should come after its pattern, and what is freed should be
 * checked by then. Waits for that, but not long, and not on a device that is too busy. Returns whether it came to that. */
static int await_launch(struct watch *watch, const struct block *block, unsigned times)
{
    for (unsigned asked = 0;; asked++) {
        lock_take(&watch->lock);
        int is_over = !slack_is_launched(block), is_last = watch->in_vain >= IN_VAIN_MOST || asked + 1 == AWAIT_SPINS + times;
        watch->in_vain += !is_over && watch->in_vain < IN_VAIN_MOST && is_last;
        lock_release(&watch->lock);
        if (is_over || is_last)
            return is_over;
        if (asked < AWAIT_SPINS)
            sched_yield();
        else
            aside_sleep(AWAIT_US);
    }
}

/* The first buffer of a cell: the pattern of its page is around it. */
static void adopt(struct books *books, struct block *cell, struct slack_layout layout)
{
    struct watch *watch = watch_of(books);
    cell->is_blank = 0;
    if (!watch)
        return;
    HOLD(&watch->lock);
    struct slack *slack = slack_of(watch, cell);
    if (slack) {
        slack->layout.address = layout.address;
        __atomic_store_n(&slack->layout.size, layout.size, __ATOMIC_RELAXED);
        slack_watched(slack, now_ns(), SINCE_ALL);
    }
}

void slack_hand_out(struct freelist *list, struct block *block, uint64_t address, uint64_t size, int is_fresh)
{
    block_expect(block, BLOCK_HELD);
    struct slack *slack = block->slack;
    if (list->pool || block_has(block, RARE_ELSEWHERE)) {
        slack_forget(block);
        return;
    }
    if (block->is_blank) {
        adopt(list->books, block, (struct slack_layout){address, size});
        return;
    }
    if (slack && has_layout(slack, address, size) && !__atomic_load_n(&slack->queue, __ATOMIC_ACQUIRE)) {
        await_submission(list, slack);
        return;
    }
    struct watch *watch = watch_of(list->books);
    int is_begun = watch && (watch_is_ready(watch) || watch_begin(watch)), is_due = 0;
    if (!watch)
        return;
    lock_take(&watch->lock);
    if (is_begun && (slack = slack_of(watch, block)) != NULL) {
        if (slack->queue && slack->queue != list->slack_queue)
            slack_dequeue(slack); /* of a list that has no work left for it */
        is_due = prepare(watch, list, slack, (struct slack_layout){address, size}, is_fresh);
        if (is_due)
            slack_keep(slack);
    } else if (block->slack) {
        slack_dequeue(block->slack);
        slack_discard(block->slack);
    }
    lock_release(&watch->lock);
    if (is_due)
        flush(watch, list);
    if (slack)
        await_submission(list, slack);
    if (!is_due)
        return;
    withdraw_check(watch, slack);
    if (list == &list->books->shared && !await_launch(watch, block, AWAIT_TIMES))
        __atomic_fetch_add(&watch->late, 1, __ATOMIC_RELAXED);
}

/* ---- a block is freed ---- */

/* Notes that the buffer was freed. Returns whether it had a pattern. Caller holds the lock. */
static int note_freed(struct watch *watch, struct slack *slack)
{
    lock_expect(RANK_SLACK);
    if (slack->queue && slack->does & PATTERN_WRITE)
        slack_dequeue(slack);
    if (!slack->is_written) {
        slack_discard(slack);
        watch->missed++;
        return 0;
    }
    facts_copy(slack->block, &slack->facts);
    if (!slack->buffers++)
        slack->first_id = slack->facts.id;
    return 1;
}

/* Whether a launch on another stream may still use the block. Caller holds the lock. */
static int is_foreign(struct slack *slack, const struct freelist *list)
{
    lock_expect(RANK_SLACK);
    if (slack->queue && slack->queue != list->slack_queue)
        slack_dequeue(slack);
    return slack->batch && slack->batch->list != list && !slack_is_over(slack);
}

int slack_freed(struct freelist *list, struct block *block)
{
    block_expect(block, BLOCK_HELD);
    struct slack *slack = block->slack;
    struct watch *watch = watch_of(list->books);
    int is_due = 0;
    if (!watch)
        return 1;
    lock_take(&watch->lock);
    if (is_foreign(slack, list)) {
        lock_release(&watch->lock);
        return 0;
    }
    struct slack_queue *queue = slack_queue_of(list);
    if (note_freed(watch, slack) && queue) {
        slack_keep(slack); /* the background thread may launch it before it is in the list */
        if (!slack->queue)
            slack_enqueue(queue, slack, PATTERN_CHECK);
        earn(queue);
        is_due = queue->count >= tunables.slack_every;
    }
    lock_release(&watch->lock);
    if (is_due)
        flush(watch, list);
    return 1;
}

/* Checks freed blocks that nobody uses, on the watch's own stream. In a scope; caller holds the lock. */
static void check_idle(struct watch *watch, struct slack **slacks, unsigned count)
{
    lock_expect(RANK_SLACK);
    struct batch *batch = count ? batch_take(watch) : NULL;
    if (!batch)
        return;
    for (unsigned i = 0; i < count; i++) {
        slacks[i]->does = PATTERN_CHECK;
        batch_add(watch, batch, slacks[i]);
    }
    if (!batch_launch(watch, batch))
        return;
    for (unsigned i = 0; i < count; i++) {
        slacks[i]->batch = batch;
        slacks[i]->turn = batch->flight.turn;
        slack_watched(slacks[i], now_ns(), SINCE_ALL);
    }
}

/* Whether the freed block is checked at once, in the queue of `list`, or by itself without one. Caller holds the lock. */
static int wants_check(struct slack *slack, struct freelist *list, int is_last)
{
    lock_expect(RANK_SLACK);
    struct slack_queue *queue = slack_queue_of(list);
    if (!queue)
        return 0;
    earn(queue);
    return (slack_is_over(slack) || slack->batch->list == list) && (take_credit(queue) || is_last);
}

/* With uaf=strict the block is unmapped after its free: the background thread checks it right before that. */
static int is_checked_last(const struct block *block)
{
    return heap_options->uaf == UAF_STRICT && !block_is_cell(block);
}

void slack_release(struct block *block, struct stream *stream, enum heap_users users, int is_recorded, int is_forgotten)
{
    block_expect(block, BLOCK_HELD);
    struct watch *watch = watch_of(block->books);
    struct freelist *list = NULL;
    int is_due = 0, is_checked = 0;
    if (!watch)
        return;
    if (users == HEAP_STREAM && !is_recorded && stream->context == block->books->context)
        list = freelist_of(stream);
    struct scope scope = scope_enter(block->books->context);
    lock_take(&watch->lock);
    struct slack *slack = block->slack; /* not before: the end of the context takes it */
    if (slack)
        slack_dequeue(slack);
    if (slack && note_freed(watch, slack) && scope.pushed) {
        int is_last = is_checked_last(block),
            is_wanted = is_last || wants_check(slack, list ? list : &block->books->shared, is_forgotten);
        slack_keep(slack);
        is_due = list && !is_last && is_wanted && slack_enqueue(list->slack_queue, slack, PATTERN_CHECK);
        is_checked = is_wanted && users == HEAP_NONE && slack_is_over(slack);
        if (is_checked)
            check_idle(watch, &slack, 1);
    }
    lock_release(&watch->lock);
    scope_leave(scope);
    if (users == HEAP_NONE && await_launch(watch, block, AWAIT_FREED) && is_checked)
        slack_keeps(block);
    if (!is_due)
        return;
    flush(watch, list);
    HOLD(&watch->lock);
    slack_dequeue(slack); /* if it could not be launched: another list will hand it out */
}

void slack_check_retired(struct books *books, struct block *const *blocks, unsigned count)
{
    struct watch *watch = __atomic_load_n(&books->watch, __ATOMIC_ACQUIRE);
    struct slack *slacks[SLACK_MOST];
    unsigned due = 0;
    if (!watch)
        return;
    HOLD(&watch->lock);
    for (unsigned i = 0; i < count && due < SLACK_MOST; i++) {
        struct slack *slack = blocks[i]->slack;
        if (slack && slack->is_written && slack->buffers && slack_is_over(slack))
            slacks[due++] = slack;
    }
    check_idle(watch, slacks, due); /* where none of the launches is free, it is unmapped all the same */
}

int heap_is_alone_on(const struct stream *stream)
{
    struct books *books = stream && stream->context ? books_of(stream->context) : NULL;
    struct watch *watch = books ? __atomic_load_n(&books->watch, __ATOMIC_ACQUIRE) : NULL;
    int is_alone = 0;
    if (!watch)
        return 0;
    HOLD(&watch->lock);
    for (unsigned i = 0; i < BATCHES && !is_alone; i++) {
        struct batch *batch = &watch->batches[i];
        is_alone = batch->is_alone && (batch->flight.on.stream == stream || stream == &stream->context->legacy) &&
                   !flight_is_over(&batch->flight);
    }
    return is_alone;
}

void slack_await(struct block *block)
{
    struct watch *watch = block->slack ? watch_of(block->books) : NULL;
    if (watch)
        await_launch(watch, block, AWAIT_TIMES);
}

int slack_wait_for(struct block *block, const struct freelist *list)
{
    struct watch *watch = block->slack ? watch_of(block->books) : NULL;
    if (!watch)
        return 0;
    lock_take(&watch->lock);
    const struct slack *slack = block->slack;
    int is_over = !slack_is_launched(block), is_ordered = is_over || (list && slack->batch->list == list);
    const struct stream_ref on = is_over ? stream_ref(NULL) : slack->batch->flight.on;
    lock_release(&watch->lock);
    if (!is_over)
        waits_add(block, on);
    return !is_ordered;
}

/* ---- ends ---- */

/* Caller holds the lock. */
static void drop(struct watch *watch, struct slack *slack)
{
    lock_expect(RANK_SLACK);
    slack_dequeue(slack);
    slack->block->slack = NULL;
    DL_DELETE(watch->slacks, slack);
    free(slack);
}

int slack_forget(struct block *block)
{
    struct watch *watch = block->slack ? watch_of(block->books) : NULL;
    if (!watch)
        return 1;
    HOLD(&watch->lock);
    int is_over = !slack_is_launched(block);
    if (block->slack) {
        watch->missed += block->slack->buffers != 0;
        drop(watch, block->slack);
    }
    return is_over;
}

int slack_is_queued(const struct block *block)
{
    return block->slack && block->slack->queue;
}

int slack_is_launched(const struct block *block)
{
    return block->slack && !slack_is_over(block->slack);
}

struct watch *slack_hold(struct books *books)
{
    struct watch *watch = __atomic_load_n(&books->watch, __ATOMIC_ACQUIRE);
    if (watch)
        lock_take(&watch->lock);
    return watch;
}

void slack_go_on(struct watch *watch, struct block *gone)
{
    if (!watch)
        return;
    if (gone && gone->slack) {
        watch->missed += slack_is_queued(gone) != 0;
        drop(watch, gone->slack);
    }
    lock_release(&watch->lock);
}

int slack_waits(const struct freelist *list)
{
    const struct slack_queue *queue = __atomic_load_n(&list->slack_queue, __ATOMIC_ACQUIRE);
    return queue && __atomic_load_n(&queue->count, __ATOMIC_RELAXED);
}

void slack_list_gone(struct freelist *list)
{
    struct watch *watch = list->slack_queue ? watch_of(list->books) : NULL;
    if (!watch)
        return;
    lock_take(&watch->lock);
    while (list->slack_queue->first)
        slack_dequeue(list->slack_queue->first);
    for (unsigned i = 0; i < BATCHES; i++) {
        if (watch->batches[i].list == list)
            watch->batches[i].list = NULL;
    }
    lock_release(&watch->lock);
    free(list->slack_queue);
    list->slack_queue = NULL;
}

void slack_context_gone(struct books *books)
{
    struct watch *watch = books->watch ? watch_of(books) : NULL;
    if (!watch)
        return;
    HOLD(&watch->lock);
    while (watch->slacks)
        drop(watch, watch->slacks);
    batches_forget(watch);
    books_let_go(books, 0);
    __atomic_store_n(&watch->state, WATCH_NEW, __ATOMIC_RELEASE);
}
