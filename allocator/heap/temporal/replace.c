/* Takes an idle block out of its free list; a twin takes its place. */
#include "temporal.h"

#include "heap/slack/slack.h"

#define SCAN 64 /* blocks to look at from each end of a bin */

/* Caller holds the list lock. */
static int is_in(struct block *bin, const struct block *wanted)
{
    lock_expect(RANK_LIST);
    struct block *block = bin;
    for (unsigned i = 0; i < SCAN && block; i++, block = block->next) {
        if (block == wanted)
            return 1;
    }
    block = bin ? bin->prev : NULL; /* in utlist the head's prev is the tail */
    for (unsigned i = 0; i < SCAN && block; i++, block = block == bin ? NULL : block->prev) {
        if (block == wanted)
            return 1;
    }
    return 0;
}

/* Only now that the block is known to be in a bin of this list, its fields belong to the holder of the list's lock. */
static int replace(struct freelist *list, struct watch *held, struct block *block, uint64_t pages, uint64_t id, int needs_twin)
{
    int is_done = 0;
    list_lock(list);
    struct block **bin = &list->bins[freelist_bin(pages)], *twin = NULL;
    if (is_in(*bin, block) && block->facts.id == id && !slack_is_launched(block) && !(needs_twin && slack_is_queued(block)) &&
        !slack_is_needed(held, block)) {
        freelist_ask_markers(list);
        is_done = block->free_sequence <= list->passed;
        twin = is_done ? twin_take(block) : NULL;
        is_done &= twin || !needs_twin;
    }
    if (twin) {
        facts_write_none(twin, block->facts.freed_ns);
        twin->free_sequence = block->free_sequence;
        block_become(twin, BLOCK_IDLE);
        DL_REPLACE_ELEM(*bin, block, twin);
    } else if (is_done) {
        DL_DELETE(*bin, block);
        list_count_idle(list, pages, (uint64_t)-1);
    }
    if (is_done)
        block_become(block, BLOCK_HELD);
    list_unlock(list);
    return is_done;
}

int freelists_replace(struct books *books, struct block *block, uint64_t pages, uint64_t id, int needs_twin)
{
    if (needs_twin && books_keeps(books, 0))
        return 0;
    HOLD(&books->lock);
    struct watch *held = slack_hold(books); /* else a check of all might find the twin's bytes around the block */
    int is_done = 0;
    for (struct freelist *list = freelist_next(books, NULL); list && !is_done; list = freelist_next(books, list))
        is_done = replace(list, held, block, pages, id, needs_twin);
    slack_go_on(held, is_done ? block : NULL);
    return is_done;
}
