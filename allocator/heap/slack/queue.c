/* Slack watch: what is known about a block's pattern, the queues of what waits to be launched, for which callers hold the lock,
 * and what was found, until it is reported. */
#include "watch.h"

#include "base/lost_reports.h"

#include <stdlib.h>

void slack_ranges(const struct block *block, struct slack_layout layout, struct pattern_range ranges[2])
{
    uint64_t start = layout.address, end = layout.address + layout.size;
    struct layout_slack slack = layout_slack(block->slot.mapped, start - block->slot.base, layout.size);
    ranges[PATTERN_HEAD] = (struct pattern_range){start - slack.head, start};
    ranges[PATTERN_TAIL] = (struct pattern_range){end, end + slack.tail};
}

void slack_discard(struct slack *slack)
{
    lock_expect(RANK_SLACK);
    slack->is_written = 0;
    slack->buffers = 0;
    __atomic_store_n(&slack->layout.size, 0, __ATOMIC_RELAXED);
}

void slack_watched(struct slack *slack, uint64_t now, uint64_t on)
{
    lock_expect(RANK_SLACK);
    slack->is_written = 1;
    slack->buffers = 0;
    slack->since_ns = now;
    slack->since_on = on;
}

struct batch_buffer slack_described(const struct slack *slack)
{
    lock_expect(RANK_SLACK);
    return (struct batch_buffer){.facts = slack->facts,
                                 .slot = slot_described(&slack->block->slot),
                                 .since_ns = slack->since_ns,
                                 .since_on = slack->since_on,
                                 .buffers = slack->buffers,
                                 .first_id = slack->first_id};
}

struct slack_queue *slack_queue_of(struct freelist *list)
{
    lock_expect(RANK_SLACK);
    struct slack_queue *queue = list->slack_queue;
    if (!queue && (queue = calloc(1, sizeof *queue)) != NULL) {
        queue->credit = CREDIT_MOST * (unsigned)tunables.slack_every;
        __atomic_store_n(&list->slack_queue, queue, __ATOMIC_RELEASE);
    }
    return queue;
}

int slack_enqueue(struct slack_queue *queue, struct slack *slack, unsigned does)
{
    lock_expect(RANK_SLACK);
    if (!queue || queue->count == QUEUE_MOST)
        return 0;
    slack->does = does;
    DL_APPEND2(queue->first, slack, ahead, behind);
    __atomic_store_n(&queue->count, queue->count + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&slack->queue, queue, __ATOMIC_RELAXED);
    wake_sleeping_worker(); /* if no launch of the program's comes, the background thread makes one */
    return 1;
}

void slack_keep(struct slack *slack)
{
    lock_expect(RANK_SLACK);
    block_expect(slack->block, BLOCK_HELD);
    slack->block->free_sequence = 0; /* freelist_put() gives it another, under the lock of the list */
}

void slack_dequeue(struct slack *slack)
{
    lock_expect(RANK_SLACK);
    struct slack_queue *queue = slack->queue;
    if (!queue)
        return;
    DL_DELETE2(queue->first, slack, ahead, behind);
    __atomic_store_n(&queue->count, queue->count - 1, __ATOMIC_RELAXED);
    __atomic_store_n(&slack->queue, NULL, __ATOMIC_RELEASE);
    if (slack->does & PATTERN_WRITE)
        slack_discard(slack);
}

/* ---- what was found ---- */

/* The buffers that the heap reports slack of to. */
static void (*report)(const struct heap_slack *found); /* constant */

void heap_on_slack(void (*function)(const struct heap_slack *found))
{
    report = function;
}

void slack_report_found(struct books *books, const struct heap_slack *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t base = found[i].buffer.mapping_start;
        if (report)
            report(&found[i]);
        int is_same = i + 1 < count && found[i + 1].buffer.mapping_start == base; /* both sides of a buffer follow each other */
        if (base && !is_same && !found[i].found.poison.bytes)
            books_let_go(books, base);
    }
    untold_end();
}

/* The memory that a report needs stays as it is until it is made: the second launch is given it. Of what was found, that is
 * what the batches have, and what is in the context's table. This is about the batches; caller holds the lock. */
static int is_found(struct watch *watch, uint64_t base)
{
    lock_expect(RANK_SLACK);
    int is_found = 0;
    for (unsigned i = 0; i < BATCHES && !is_found; i++) {
        struct batch *batch = &watch->batches[i];
        unsigned count = batch->flight.is_begun && flight_is_over(&batch->flight) ? batch->count : 0;
        for (unsigned k = 0; k < count && !is_found; k++)
            is_found = batch->states[k] == PATTERN_BAD && batch->buffers[k].slot.base == base;
    }
    return is_found;
}

int slack_is_needed(struct watch *watch, const struct block *block)
{
    return books_keeps(block->books, block->slot.base) || (watch && is_found(watch, block->slot.base));
}

int slack_keeps(struct block *block)
{
    struct watch *watch = __atomic_load_n(&block->books->watch, __ATOMIC_ACQUIRE);
    const uint64_t base = block->slot.base;
    if (!watch || books_keeps(block->books, base)) /* whoever lets it go does so without the lock */
        return watch != NULL;
    HOLD(&watch->lock);
    return is_found(watch, base) && books_keep(block->books, base);
}
