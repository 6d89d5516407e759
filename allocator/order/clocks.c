#include "clocks.h"

#include "base/hash.h"

#include <stdlib.h>

#define IS_GRAPH (UINT64_C(1) << 63) /* in a point's name; no user address has this bit */

struct order_point {
    uint64_t name;
    int is_hidden;
    struct order_clock clock;
    UT_hash_handle hh;
};

/* ---- clocks and sets ---- */

static void join(const struct order_clocks *clocks, struct order_clock *clock, const struct order_clock *other)
{
    for (unsigned i = 0; i < clocks->count; i++) {
        if (other->at[i] > clock->at[i])
            clock->at[i] = other->at[i];
    }
}

static void set_remove(struct order_set *set, unsigned stream)
{
    set->words[stream / 64] &= ~(UINT64_C(1) << stream % 64);
}

/* ---- streams ---- */

unsigned clocks_stream_begins(struct order_clocks *clocks, const void *context, enum order_kind kind)
{
    unsigned tries = 0, index = clocks->next;
    while (tries++ < ORDER_STREAMS && order_set_has(&clocks->used, index))
        index = (index + 1) % ORDER_STREAMS;
    if (order_set_has(&clocks->used, index)) {
        clocks->has_untracked = 1;
        return ORDER_NOT_TRACKED;
    }
    clocks->next = (index + 1) % ORDER_STREAMS;
    if (index >= clocks->count)
        clocks->count = index + 1;
    struct order_stream *stream = &clocks->streams[index];
    *stream = (struct order_stream){.context = context};
    stream->before.at[index] = clocks->host.at[index] = clocks->latest.at[index];
    order_set_add(&clocks->used, index);
    set_remove(&clocks->legacy, index);
    set_remove(&clocks->blocking, index);
    if (kind != ORDER_NON_BLOCKING)
        order_set_add(kind == ORDER_LEGACY ? &clocks->legacy : &clocks->blocking, index);
    return index;
}

void clocks_stream_ends(struct order_clocks *clocks, unsigned stream)
{
    if (stream != ORDER_NOT_TRACKED) /* its work goes on, and the legacy stream still waits for it */
        set_remove(&clocks->used, stream);
}

void clocks_context_ends(struct order_clocks *clocks, const void *context)
{
    struct order_clock done = clocks_of_context(clocks, context);
    clocks_host_knows(clocks, &done);
    for (unsigned i = 0; i < clocks->count; i++) {
        if (order_set_has(&clocks->used, i) && clocks->streams[i].context == context)
            clocks_stream_ends(clocks, i);
    }
}

/* Joins what streams of the set and of the same context have done that the clock does not cover. */
static void join_set(const struct order_clocks *clocks, struct order_clock *clock, const void *context,
                     const struct order_set *set)
{
    for (unsigned word = 0; word < ORDER_STREAMS / 64; word++) {
        for (uint64_t left = set->words[word]; left; left &= left - 1) {
            unsigned other = word * 64 + (unsigned)__builtin_ctzll(left);
            if (clocks->streams[other].context == context && clock->at[other] < clocks->latest.at[other])
                join(clocks, clock, &clocks->streams[other].before);
        }
    }
}

/* The legacy stream waits for the streams that it blocks, and they for it. Joins what the stream's next work waits for. */
static void join_legacy(const struct order_clocks *clocks, struct order_clock *clock, unsigned stream)
{
    int is_legacy = order_set_has(&clocks->legacy, stream);
    const void *context = clocks->streams[stream].context;
    if (!is_legacy && !order_set_has(&clocks->blocking, stream))
        return;
    if (clocks->has_untracked) /* one of them may synchronise with this one */
        join(clocks, clock, &clocks->latest);
    join_set(clocks, clock, context, &clocks->legacy);
    if (is_legacy)
        join_set(clocks, clock, context, &clocks->blocking);
}

uint64_t clocks_step(struct order_clocks *clocks, unsigned stream)
{
    if (stream == ORDER_NOT_TRACKED)
        return 0;
    join_legacy(clocks, &clocks->streams[stream].before, stream);
    return clocks->streams[stream].before.at[stream] = ++clocks->latest.at[stream];
}

/* ---- points ---- */

static struct order_point *find(const struct order_clocks *clocks, uint64_t name)
{
    struct order_point *point;
    HASH_FIND(hh, clocks->points, &name, sizeof name, point);
    return point;
}

static void drop(struct order_clocks *clocks, struct order_point *point)
{
    HASH_DEL(clocks->points, point);
    clocks->point_count--;
    free(point);
}

/* Returns NULL if out of host memory. A point that is not in the table counts as hidden. */
static struct order_point *find_or_add(struct order_clocks *clocks, uint64_t name)
{
    struct order_point *point = find(clocks, name);
    if (point)
        return point;
    while (clocks->point_count >= ORDER_POINTS) {
        clocks->has_lost_graph |= (clocks->points->name & IS_GRAPH) != 0;
        drop(clocks, clocks->points);
    }
    point = calloc(1, sizeof *point);
    if (!point)
        return NULL;
    point->name = name;
    HASH_ADD(hh, clocks->points, name, sizeof point->name, point);
    if (!(point = HASH_KEPT(point)))
        return NULL;
    clocks->point_count++;
    return point;
}

static void gone(struct order_clocks *clocks, uint64_t name)
{
    struct order_point *point = find(clocks, name);
    if (point)
        drop(clocks, point);
}

void clocks_clear(struct order_clocks *clocks)
{
    while (clocks->points)
        drop(clocks, clocks->points);
}

void clocks_event_made(struct order_clocks *clocks, uint64_t event)
{
    gone(clocks, event);
    find_or_add(clocks, event);
}

/* The point, which may be NULL, stands for all work of the stream so far. */
static void set(struct order_clocks *clocks, struct order_point *point, unsigned stream)
{
    clocks_step(clocks, stream);
    if (point)
        point->clock = stream == ORDER_NOT_TRACKED ? clocks->latest : clocks->streams[stream].before;
}

/* An event that was not seen when it was made may be another process's, too, so it stays unknown. */
void clocks_event_recorded(struct order_clocks *clocks, uint64_t event, unsigned stream)
{
    set(clocks, find(clocks, event), stream);
}

void clocks_event_hidden(struct order_clocks *clocks, uint64_t event)
{
    struct order_point *point = find(clocks, event);
    if (point)
        point->is_hidden = 1;
}

void clocks_event_all(struct order_clocks *clocks, uint64_t event)
{
    set(clocks, find(clocks, event), ORDER_NOT_TRACKED);
}

void clocks_event_gone(struct order_clocks *clocks, uint64_t event)
{
    gone(clocks, event);
}

static const struct order_clock *clock_of(const struct order_clocks *clocks, uint64_t event)
{
    const struct order_point *point = find(clocks, event);
    return point && !point->is_hidden ? &point->clock : &clocks->latest;
}

void clocks_wait(struct order_clocks *clocks, unsigned stream, uint64_t event)
{
    if (stream == ORDER_NOT_TRACKED)
        return;
    join(clocks, &clocks->streams[stream].before, clock_of(clocks, event));
    clocks_step(clocks, stream);
}

void clocks_wait_for_all(struct order_clocks *clocks, unsigned stream)
{
    if (stream == ORDER_NOT_TRACKED)
        return;
    join(clocks, &clocks->streams[stream].before, &clocks->latest);
    clocks_step(clocks, stream);
}

void clocks_graph_launched(struct order_clocks *clocks, unsigned stream, uint64_t graph)
{
    uint64_t name = graph | IS_GRAPH;
    const struct order_point *before = find(clocks, name);
    int is_unknown = clocks->graphs_wait || (!before && clocks->has_lost_graph);
    if (stream != ORDER_NOT_TRACKED && (before || is_unknown))
        join(clocks, &clocks->streams[stream].before, is_unknown ? &clocks->latest : &before->clock);
    set(clocks, find_or_add(clocks, name), stream);
    if (clocks->graphs_tell)
        clocks_host_knows(clocks, stream == ORDER_NOT_TRACKED ? &clocks->latest : &clocks->streams[stream].before);
}

void clocks_graph_gone(struct order_clocks *clocks, uint64_t graph)
{
    gone(clocks, graph | IS_GRAPH);
}

/* ---- the host ---- */

struct order_clock clocks_of_stream(const struct order_clocks *clocks, unsigned stream)
{
    if (stream == ORDER_NOT_TRACKED)
        return clocks->latest;
    struct order_clock seen = clocks->streams[stream].before;
    if (order_set_has(&clocks->legacy, stream)) /* waiting for it waits for the streams that it blocks, too */
        join_legacy(clocks, &seen, stream);
    return seen;
}

struct order_clock clocks_of_event(const struct order_clocks *clocks, uint64_t event)
{
    return *clock_of(clocks, event);
}

struct order_clock clocks_of_context(const struct order_clocks *clocks, const void *context)
{
    struct order_clock all = clocks->host;
    if (!context || clocks->has_untracked)
        return clocks->latest;
    for (unsigned i = 0; i < clocks->count; i++) {
        if (clocks->streams[i].context == context) /* destroyed streams, too: their work goes on */
            join(clocks, &all, &clocks->streams[i].before);
    }
    return all;
}

void clocks_host_knows(struct order_clocks *clocks, const struct order_clock *seen)
{
    join(clocks, &clocks->host, seen);
}

uint64_t clocks_done(const struct order_clocks *clocks, unsigned stream, unsigned by)
{
    uint64_t host = clocks->host.at[stream], before = by == ORDER_NOT_TRACKED ? 0 : clocks->streams[by].before.at[stream];
    return host > before ? host : before;
}

int clocks_is_ordered(const struct order_clocks *clocks, unsigned stream, uint64_t position, unsigned by)
{
    return clocks_done(clocks, stream, by) >= position;
}
