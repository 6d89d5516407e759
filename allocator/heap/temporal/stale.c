/*
 * Freed pointers that launches are given: whether one of them is used is for the hardware to say, so its buffer is unmapped
 * first.
 *
 * A correct program passes such pointers too, in what a kernel does not look at: members of a struct that nobody has set. So
 * what this costs has a limit, whatever the program does, and the launch goes on.
 */
#include "temporal.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/options.h"

#define SPINS 64
#define PAUSE_US 20

static uint64_t first_ns; /* atomic; 0: none was found yet */

/* Time that may be spent: some at first, and then a part of what has passed since the first was found. */
static struct budget {
    int64_t at_once_ns, share;
    int64_t spent_ns; /* atomic */
} for_members = {10000000, 500, 0}, for_arguments = {500000000, 100, 0};

/* A freed buffer whose memory is mapped, and serves no other. */
struct stale {
    uint64_t address; /* in it */
    int may_wait;
    struct block *block; /* NULL: there is none */
    struct books *books;
    enum block_state state;
    uint64_t pages, id;
};

static void look(struct slot *slot, uint64_t gap_start, void *user)
{
    (void)gap_start;
    struct stale *stale = user;
    struct block *block = (struct block *)slot;
    if (!slot->is_mapped || stale->address - slot->base >= slot->mapped || block_page_now(block) || block_pool_now(block))
        return;
    struct facts facts = facts_read(block);
    if (!facts.id || !facts.freed_ns || stale->address - facts.address >= facts.size)
        return;
    stale->block = block;
    stale->books = block->books;
    stale->state = block_state_now(block);
    stale->pages = block->pages;
    stale->id = facts.id;
}

static int find(struct stale *stale)
{
    stale->block = NULL;
    arena_visit(stale->address, 1, look, stale); /* the arena's lock keeps the block */
    return stale->block != NULL;
}

/* Does what brings the buffer nearer to its end. In a scope. */
static void advance(struct books *books, void *user)
{
    const struct stale *stale = user;
    if (stale->state == BLOCK_IDLE && freelists_replace(books, stale->block, stale->pages, stale->id, 0))
        block_release(stale->block);
    else if (stale->state == BLOCK_IDLE && stale->may_wait)
        worker_look(0);
    else if (stale->state == BLOCK_WAITING)
        freelist_advance(&books->shared);
    else if (stale->state == BLOCK_RETIRING)
        wake_worker();
}

static int64_t left_ns(const struct budget *budget, uint64_t now)
{
    uint64_t first = 0;
    if (__atomic_compare_exchange_n(&first_ns, &first, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        first = now;
    return budget->at_once_ns + (int64_t)(now - first) / budget->share - __atomic_load_n(&budget->spent_ns, __ATOMIC_RELAXED);
}

static void pause_after(unsigned tries)
{
    if (tries >= SPINS)
        aside_sleep(PAUSE_US);
    else if (tries)
        sched_yield();
}

static void retire(void *user)
{
    struct stale *stale = user;
    const struct context *own = context_known_current();
    struct budget *budget = stale->may_wait ? &for_arguments : &for_members;
    const uint64_t began = monotonic_ns();
    const int64_t left = left_ns(budget, began);
    int64_t spent = 0;
    int is_there = 1;
    for (unsigned tries = 0; spent < left && (is_there = find(stale)) && (stale->may_wait || !tries); tries++) {
        reclaim_visit(own, stale->books, 0, advance, stale);
        pause_after(tries);
        spent = (int64_t)(monotonic_ns() - began);
    }
    __atomic_add_fetch(&budget->spent_ns, spent, __ATOMIC_RELAXED);
    if (!is_there)
        index_unmark(stale->address);
}

void heap_retire_freed(uint64_t address, int may_wait)
{
    struct stale stale = {.address = address, .may_wait = may_wait};
    if (!heap_captures()) /* the work of a capture is not on the streams yet, and it is no time to wait */
        aside_call(retire, &stale);
}

/* ---- graphs, and textures ---- */

int heap_given_for_later(uint64_t address)
{
    struct block *block = heap_options->uaf != UAF_OFF ? index_holding(address) : NULL;
    if (!block || block_is_cell(block) || block_pool_now(block))
        return 0;
    struct facts facts = facts_read(block);
    if (facts.freed_ns || address - facts.address >= facts.size)
        return 0;
    block_mark(block, RARE_GRAPH);
    return 1;
}

uint64_t heap_given_frees(void)
{
    return __atomic_load_n(&blocks_given_freed, __ATOMIC_ACQUIRE);
}

struct given {
    uint64_t id;
    int is_gone;
};

static void look_for(struct slot *slot, uint64_t gap_start, void *user)
{
    (void)gap_start;
    struct given *given = user;
    const struct block *block = (const struct block *)slot;
    struct facts facts = facts_read(block);
    given->is_gone |= facts.id == given->id && facts.freed_ns && !block_pool_now(block);
}

int heap_given_is_gone(uint64_t address, uint64_t id)
{
    struct given given = {.id = id};
    arena_visit(address, 1, look_for, &given);
    return given.is_gone;
}

static int is_leaving(void)
{
    return __atomic_load_n(&blocks_leaving, __ATOMIC_ACQUIRE) != 0;
}

static void await_leaving(void *unused)
{
    (void)unused;
    const uint64_t began = monotonic_ns();
    const int64_t left = left_ns(&for_arguments, began);
    int64_t spent = 0;
    for (unsigned tries = 0; spent < left && is_leaving(); tries++) {
        wake_worker();
        pause_after(tries);
        spent = (int64_t)(monotonic_ns() - began);
    }
    __atomic_add_fetch(&for_arguments.spent_ns, spent, __ATOMIC_RELAXED);
}

void heap_before_graph(void)
{
    if (__builtin_expect(is_leaving(), 0))
        aside_call(await_leaving, NULL);
}
