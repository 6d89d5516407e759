/*
 * uaf=adaptive: the background thread gives twins to blocks whose buffers come from places of allocation that are due, so that
 * the next free of such a place retires its block. A block that lies idle is replaced by its twin in the free list instead.
 *
 * Which block a place will use next is guessed: the one that its latest buffer was in. Loops repeat themselves, and a twin that
 * was guessed wrongly serves whichever place comes along that is due.
 *
 * Only the background thread runs this, one context after the other.
 */
#include "temporal.h"

#include "heap/block/places.h"

#include "base/clock.h"
#include "base/options.h"
#include "base/tunables.h"

#define LEARNED 48              /* buffers to learn from in one look at a free list */
#define SLOTS 64                /* slots of the arena to look at in one call */
#define LOOKS 256               /* places to look at in one call */
#define WRAPS 2                 /* a look at all slots that began in their midst */
#define TRIES 24                /* of those, places whose block is looked up */
#define MOST_TWINS 1024         /* in all, with those whose blocks still wait to be unmapped */
#define MOST_OF_BLOCK 16        /* of one block */
#define ACTIVE_NS 1000000000ul  /* a place that was not seen for longer holds up no round, nor any if none has a turn */
#define STALE_NS 10000000000ul  /* a block that has not changed hands for so long gives up its twins */
#define MOST_CREDIT_NS 2000000l /* the longest burst of driver calls */
#define GIVE_WAY 8              /* calls to let pass at most while the program itself maps memory */
#define RETRY_NS 50000000ul
#define NEW_PLACE_NS 500000l /* driver time that a new place brings, to have its first turn soon */
#define RETRIES 12           /* each twice as late as the one before, up to */
#define RETRY_LATEST 6       /* 64 times as late */
#define LATER 20             /* the share is divided by this once that is used up */

static struct {
    int64_t credit_ns; /* driver time that may be used */
    uint64_t then_ns;  /* when it was counted last */
    int64_t new_ns;    /* driver time that new places have brought and that is not used up */
    uint64_t places;   /* places that have brought it */
    size_t slot;       /* of the arena, to go on with */
    struct place *place;
    uint64_t settled;  /* places looked at in a row that hold up no round */
    uint64_t in_vain;  /* places looked at since there was something to do */
    unsigned wraps;    /* how often all slots were looked at since then */
    uint64_t done_ns;  /* when that was */
    uint64_t retry_ns; /* when to look at the places again although the program does nothing */
    int has_news;      /* buffers were freed since the round began */
    uint64_t turns;    /* of all places */
    uint64_t turn_ns;  /* when it was seen that the latest had been had */
    uint64_t fresh;    /* new mappings when it was looked last */
    unsigned gave_way;
} pace = {.retry_ns = UINT64_MAX};

/* Where the thread lost its processor meanwhile, the clock says nothing about the driver: so there is a limit. */
static void charge(uint64_t began)
{
    int64_t used = (int64_t)(monotonic_ns() - began);
    pace.new_ns -= used < pace.new_ns ? used : pace.new_ns;
    pace.credit_ns -= used;
    if (pace.credit_ns < -MOST_CREDIT_NS)
        pace.credit_ns = -MOST_CREDIT_NS;
}

static void count_credit(void)
{
    uint64_t now = monotonic_ns(), elapsed = pace.then_ns ? now - pace.then_ns : 0;
    uint64_t share = tunables.uaf_share, places = places_counts().places;
    pace.then_ns = now;
    pace.new_ns += (int64_t)(places - pace.places) * NEW_PLACE_NS;
    pace.places = places;
    if (pace.new_ns == 0)
        share = (share + LATER - 1) / LATER;
    pace.credit_ns += (int64_t)(elapsed * share / 100);
    if (pace.credit_ns > MOST_CREDIT_NS)
        pace.credit_ns = MOST_CREDIT_NS;
}

/* ---- what the program has freed ---- */

static int learn_from_list(struct freelist *list, uint64_t now, uint64_t *freed)
{
    struct facts learned[LEARNED];
    size_t count = freelist_learn(list, learned, LEARNED, freed);
    for (size_t i = 0; i < count; i++) {
        if (!index_is_packed(learned[i].address))
            place_see(&learned[i], now);
    }
    return count != 0;
}

struct look {
    uint64_t now;
    struct block *stale; /* has twins that nobody takes; NULL: none seen */
};

static int look_at_slot(struct slot *slot, void *user)
{
    struct look *look = user;
    struct block *block = (struct block *)slot;
    if (!slot->is_mapped || block_state_now(block) == BLOCK_PAST)
        return 0;
    struct facts facts = facts_read(block);
    uint64_t latest = facts.freed_ns ? facts.freed_ns : facts.allocated_ns;
    if (!facts.id) /* a twin, which may be in another block's list with those that it will inherit */
        return 0;
    if (facts.freed_ns && !block_pool_now(block))
        place_see(&facts, look->now);
    if (block_rare(block) & RARE_TWIN && latest + STALE_NS < look->now)
        look->stale = block;
    return 0;
}

static void give_up_twins(struct block *block)
{
    struct block *next, *twin = twins_take_all(block);
    for (; twin; twin = next) {
        next = twin->twin;
        block_become(twin, BLOCK_PAST);
        slot_unmap(&twin->slot);
    }
}

/* Everything is looked at once more before the thread sleeps. */
static void begin_anew(uint64_t now)
{
    pace.in_vain = 0;
    pace.wraps = 0;
    pace.done_ns = now;
    pace.retry_ns = UINT64_MAX;
}

static void look_at_slots(struct look *look)
{
    twins_hold();
    pace.slot = arena_some(pace.slot, SLOTS, look_at_slot, look);
    if (look->stale)
        give_up_twins(look->stale);
    twins_go_on();
    if (look->stale)
        begin_anew(look->now);
    else if (pace.slot == 0 && pace.wraps < WRAPS)
        pace.wraps++;
}

static int learn(struct books *books)
{
    struct look look = {.now = now_ns()};
    uint64_t freed = 0;
    lock_take(&books->lock);
    int is_new = learn_from_list(&books->shared, look.now, &freed);
    for (struct freelist *list = books->lists; list; list = list->next)
        is_new |= learn_from_list(list, look.now, &freed);
    lock_release(&books->lock);
    if (is_new || freed != books->freed_seen || adaptive_due_ns() <= look.now)
        begin_anew(look.now);
    books->freed_seen = freed;
    look_at_slots(&look);
    return is_new;
}

/* ---- places that are due ---- */

/* Finds the block that the place's latest buffer was in. Caller has called twins_hold(). */
static struct block *block_for(const struct place *place)
{
    lock_expect(RANK_TWIN);
    struct block *block = (struct block *)arena_slot_at(place->address);
    enum block_state state = block ? block_state_now(block) : BLOCK_PAST;
    int is_usable = state != BLOCK_PAST && state != BLOCK_RETIRING && !block_has(block, RARE_ELSEWHERE) &&
                    !block_page_now(block) && /* what was in a cell is not retired */
                    !block_pool_now(block);   /* a graph may use the memory of a pool */
    return is_usable ? block : NULL;
}

/* Adds a twin to the block if more places count on it than it has twins, or if one is needed at once. */
static uint32_t provide(struct block *block, int is_needed)
{
    uint32_t count = __atomic_load_n(&block->twin_count, __ATOMIC_RELAXED);
    uint32_t wanted = block->claims < MOST_OF_BLOCK ? block->claims : MOST_OF_BLOCK;
    return count < wanted || (is_needed && !count) ? twin_add(block) : count;
}

enum { NOT_HERE = -1 };

/* What is idle but cannot be replaced yet may still be in use, or lie too deep. */
static void set_retry(struct place *place, int is_idle, uint64_t now)
{
    unsigned later = place->retries < RETRY_LATEST ? place->retries : RETRY_LATEST;
    place->retry_ns = is_idle && place->retries++ < RETRIES ? now + (RETRY_NS << later) : UINT64_MAX;
}

/* Sees to it that the place has its turn soon. Returns 0 if there was nothing to do, NOT_HERE if it is served with
 * another context. */
static int serve(struct books *books, struct place *place, uint64_t now)
{
    int may_be_idle = place->retry_ns <= now;
    if (place->claimed == place->id && !may_be_idle)
        return 0;
    twins_hold();
    struct block *block = block_for(place);
    if (block && block->books != books) {
        twins_go_on();
        return NOT_HERE;
    }
    if (block && place->home != block->slot.base) {
        place->home = block->slot.base;
        block->claims++;
    }
    const uint64_t id = place->id;
    int is_idle = may_be_idle && block && block_state_now(block) == BLOCK_IDLE && facts_read(block).id == id;
    uint64_t pages = block ? block->pages : 0;
    uint32_t count = block ? provide(block, is_idle) : 0;
    twins_go_on();
    place->claimed = id;
    if (may_be_idle)
        set_retry(place, is_idle, now);
    if (is_idle && count && freelists_replace(books, block, pages, id, 1)) {
        place_had_turn(place);
        block_release(block);
    }
    return 1;
}

/* All places in use have had their turn (is_complete), or none can: another round begins, as long as the program goes on. */
static void settle(int is_complete)
{
    pace.settled = 0;
    if (pace.has_news)
        places_end_round(is_complete);
    pace.has_news = 0;
}

/* There is no room for the twins of those that are left, or their memory gets none. */
static int has_stalled(uint64_t now)
{
    uint64_t turns = places_counts().retired;
    int has_stalled = turns == pace.turns && pace.turn_ns + ACTIVE_NS < now;
    if (turns != pace.turns || has_stalled)
        pace.turn_ns = now;
    pace.turns = turns;
    return has_stalled;
}

/* Bounds address space and events, above all when the host is far ahead of the device. */
static int has_room(const struct books *books)
{
    return twins_mapped() + figure(&books->shared.retiring_count) < MOST_TWINS;
}

/* Returns whether there is more to do at once. */
static int serve_places(struct books *books)
{
    uint64_t now = now_ns();
    unsigned tries = 0;
    if (has_stalled(now))
        settle(0);
    pace.place = pace.place ? pace.place : places_first();
    for (unsigned looks = 0; pace.place && looks < LOOKS && tries < TRIES && pace.credit_ns > 0; looks++) {
        struct place *place = pace.place;
        pace.place = place_after(place);
        place_requeue(place);
        int is_held_up = place_is_due(place) && place->seen_ns + ACTIVE_NS > now;
        pace.settled = is_held_up ? 0 : pace.settled + 1;
        pace.in_vain++;
        if (place_is_due(place) && has_room(books)) {
            uint64_t began = monotonic_ns();
            int has_served = serve(books, place, now);
            if (has_served > 0) {
                tries++;
                charge(began);
                pace.in_vain = 0;
            }
            if (has_served != NOT_HERE)
                pace.retry_ns = place->retry_ns < pace.retry_ns ? place->retry_ns : pace.retry_ns;
        }
        if (pace.settled > places_counts().places)
            settle(1);
    }
    return pace.place && pace.in_vain <= places_counts().places;
}

/* Driver calls take turns, so a program that maps memory right now would wait for those of this thread. */
static int gives_way(struct books *books)
{
    uint64_t fresh = figure(&books->fresh);
    int is_mapping = fresh != pace.fresh && pace.gave_way < GIVE_WAY;
    pace.gave_way = is_mapping ? pace.gave_way + 1 : 0;
    pace.fresh = fresh;
    return is_mapping;
}

uint64_t adaptive_due_ns(void)
{
    uint64_t stale_ns = twins_mapped() ? pace.done_ns + STALE_NS : UINT64_MAX;
    return stale_ns < pace.retry_ns ? stale_ns : pace.retry_ns;
}

int adaptive_work(struct books *books)
{
    int is_new = learn(books);
    pace.has_news |= is_new;
    count_credit();
    uint64_t began = monotonic_ns();
    reclaim_retired(books);
    charge(began);
    if (gives_way(books))
        return 1;
    return serve_places(books) | is_new | (pace.wraps < WRAPS);
}
