/*
 * Slack watch, fill and poison: the entry points. watch.h has the idea.
 */
#pragma once

#include "heap/reuse/reuse.h"

/* ---- slack.c, batches.c: slack watch. Only with slack=on; the others return at once where nothing is watched ---- */

/* The block, held, is to become a buffer of the list. is_fresh: it was mapped for it. */
void slack_hand_out(struct freelist *list, struct block *block, uint64_t address, uint64_t size, int is_fresh);
/* The block, held, is freed into the list of its stream: call right before freelist_put(). Returns 0, and has done nothing, if
 * a launch on another stream may still use the block. */
int slack_freed(struct freelist *list, struct block *block);
/* The block, held, was freed into another list than that of its stream. `stream` only with HEAP_STREAM. */
void slack_release(struct block *block, struct stream *stream, enum heap_users users, int is_recorded, int is_forgotten);
/* Launches a check of those that are due: held blocks of a context that nobody uses, before they are unmapped. In a scope. */
void slack_check_retired(struct books *books, struct block *const *blocks, unsigned count);
void slack_await(struct block *block); /* waits a moment for its last launch */
/* Adds a wait for the block's last launch. Returns 0 if that is over, or in the order of `list` (may be NULL). */
int slack_wait_for(struct block *block, const struct freelist *list);
/* Whether a report needs the block, held: a check has found something. It has books_keep() then, if there is room. */
int slack_keeps(struct block *block);
/* Between slack_hold() and slack_go_on(): its check waits for a launch; its last launch is not over. */
int slack_is_queued(const struct block *block);
int slack_is_launched(const struct block *block);
/* A check has found what is not reported yet. watch: of slack_hold() */
int slack_is_needed(struct watch *watch, const struct block *block);
struct watch *slack_hold(struct books *books);             /* no launch until slack_go_on(). NULL: there are none */
void slack_go_on(struct watch *watch, struct block *gone); /* gone: a block that is not watched any more, or NULL */
int slack_forget(struct block *block); /* it is not watched any more. Returns 0 if its last launch is not over */
/* Launches what waits. is_idle: nothing else is on the stream. Caller holds RANK_TOUCH. */
void slack_flush_touched(struct freelist *list, struct stream *stream, int is_idle);
int slack_waits(const struct freelist *list); /* something waits to be launched on its stream */
void slack_list_gone(struct freelist *list);
void slack_context_begun(struct books *books);
void slack_context_gone(struct books *books);
int slack_is_flying(struct books *books);  /* a launch is under way, or has found something that is not collected */
size_t slack_collect(struct books *books); /* reports what launches have found; returns the number. Not under a lock */

/* ---- fill.c; only with the option ---- */

void fill_fresh(struct freelist *list, uint64_t address, uint64_t size); /* a buffer of the list */
void fill_freed(struct block *block, struct stream *stream);             /* in the order of the stream */
int fill_freed_idle(struct block *block); /* one that nobody uses. Returns 1 if it must be waited for, as was added to it */
