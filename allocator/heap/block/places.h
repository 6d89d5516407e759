/*
 * Places of allocation, and their turns.
 */
#pragma once

#include "block.h"

/*
 * A place of allocation: the stack of the allocations, or without stacks their size and stream. Every place has a turn in each
 * round: a buffer of it is retired when it is freed. A place that had its turn waits until all others that are in use had
 * theirs.
 */
struct place {
    struct place *prev, *next; /* known places; the one that waits longest is first. Background thread only, to `claimed` */
    uint64_t id, address;      /* its latest buffer, as far as seen */
    uint64_t seen_ns;          /* when that was seen */
    uint64_t home;             /* the mapping that counts it among its claims */
    uint64_t claimed;          /* the buffer for which a twin was added, or no need of one was found */
    uint64_t retry_ns;         /* when to look again whether that buffer's block is idle; UINT64_MAX: never */
    uint32_t retries;          /* how often that was done */
    uint32_t turns_seen;       /* its turns when it was queued */
    uint32_t turns;            /* atomic, like everything below */
    uint32_t packed;           /* its small allocations since packing began; see packing_wants() */
    uint8_t round;             /* of its latest turn; 0: none yet */
    uint8_t is_known;
    uint8_t is_listed;  /* background thread only */
    uint8_t align_log2; /* what its buffers were seen to need; 0: nothing more */
};

struct place *place_of(const struct facts *facts);
int place_is_due(const struct place *place);
void place_had_turn(struct place *place);
uint32_t place_align(const struct facts *facts);            /* in bytes */
int place_wants(const struct facts *facts, uint32_t align); /* notes it; 0: it was known */
void place_see(const struct facts *freed, uint64_t now);    /* by the background thread, like the following */
struct place *places_first(void);                           /* the list; NULL: none known */
struct place *place_after(struct place *place);             /* the next in the list, or its first one */
void place_requeue(struct place *place);                    /* if it had a turn meanwhile: to the end */
void places_end_round(int is_complete);                     /* is_complete: it is counted */
struct place_counts {
    uint64_t places, tested, retired, rounds;
} places_counts(void);
