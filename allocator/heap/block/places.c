#include "places.h"

#include <utlist.h>

/* One for each stack number, and as many for the hashes of size and stream. Only those in use take memory. */
#define STACKS (1u << 16)
static struct place table[2 * STACKS];

#define IDLE_NS                                                                                                                \
    50000000ul /* a block idle for so long is retired where it lies, without waiting for the next free of its place */

static struct place *first;      /* the list */
static uint64_t known, tested;   /* atomic */
static uint64_t retired, rounds; /* atomic */
static uint8_t round_now = 1;    /* atomic; from 1 to 255, then from 1 again */

struct place *place_of(const struct facts *facts)
{
    uint64_t stack = facts->label >> ADDRESS_BITS;
    if (stack)
        return &table[stack];
    uint64_t hash = (facts->size ^ (facts->stream << 20) ^ facts->stream >> 44) * 0x9e3779b97f4a7c15u;
    return &table[STACKS + (hash >> 48)];
}

uint32_t place_align(const struct facts *facts)
{
    return UINT32_C(1) << __atomic_load_n(&place_of(facts)->align_log2, __ATOMIC_RELAXED);
}

int place_wants(const struct facts *facts, uint32_t align)
{
    struct place *place = place_of(facts);
    uint8_t wanted = (uint8_t)(31 - __builtin_clz(align)), before = __atomic_load_n(&place->align_log2, __ATOMIC_RELAXED);
    if (before >= wanted)
        return 0;
    __atomic_store_n(&place->align_log2, wanted, __ATOMIC_RELAXED);
    heap_mark(RARE_ALIGNMENT);
    return 1;
}

int place_is_due(const struct place *place)
{
    return __atomic_load_n(&place->round, __ATOMIC_RELAXED) != __atomic_load_n(&round_now, __ATOMIC_RELAXED);
}

static void know(struct place *place)
{
    if (!__atomic_load_n(&place->is_known, __ATOMIC_RELAXED) && !__atomic_exchange_n(&place->is_known, 1, __ATOMIC_RELAXED))
        __atomic_add_fetch(&known, 1, __ATOMIC_RELAXED);
}

void place_had_turn(struct place *place)
{
    know(place);
    __atomic_store_n(&place->round, __atomic_load_n(&round_now, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    __atomic_add_fetch(&retired, 1, __ATOMIC_RELAXED);
    if (!__atomic_fetch_add(&place->turns, 1, __ATOMIC_RELAXED))
        __atomic_add_fetch(&tested, 1, __ATOMIC_RELAXED);
}

void place_see(const struct facts *freed, uint64_t now)
{
    struct place *place = place_of(freed);
    if (freed->id <= place->id)
        return;
    know(place);
    place->id = freed->id;
    place->address = freed->address;
    place->seen_ns = now;
    place->retry_ns = now + IDLE_NS;
    place->retries = 0;
    if (!place->is_listed) {
        place->is_listed = 1;
        DL_PREPEND(first, place); /* it has waited longest */
    }
}

struct place *places_first(void)
{
    return first;
}

struct place *place_after(struct place *place)
{
    return place->next ? place->next : first;
}

void place_requeue(struct place *place)
{
    uint32_t turns = __atomic_load_n(&place->turns, __ATOMIC_RELAXED);
    if (turns == place->turns_seen)
        return;
    place->turns_seen = turns;
    DL_DELETE(first, place);
    DL_APPEND(first, place);
}

void places_end_round(int is_complete)
{
    uint8_t next = (uint8_t)(__atomic_load_n(&round_now, __ATOMIC_RELAXED) + 1);
    __atomic_store_n(&round_now, next ? next : 1, __ATOMIC_RELAXED);
    if (is_complete)
        __atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
}

struct place_counts places_counts(void)
{
    return (struct place_counts){.places = __atomic_load_n(&known, __ATOMIC_RELAXED),
                                 .tested = __atomic_load_n(&tested, __ATOMIC_RELAXED),
                                 .retired = __atomic_load_n(&retired, __ATOMIC_RELAXED),
                                 .rounds = __atomic_load_n(&rounds, __ATOMIC_RELAXED)};
}
