#include "uses.h"

#include <string.h>

static struct uses_set *set_of(struct uses *uses, uint64_t buffer)
{
    return &uses->sets[buffer % USES_SETS]; /* ids are consecutive */
}

static struct buffer_uses *find(struct uses *uses, uint64_t buffer)
{
    struct uses_set *set = set_of(uses, buffer);
    for (unsigned i = 0; i < USES_WAYS; i++) {
        if (set->ids[i] == buffer)
            return &set->buffers[i];
    }
    return NULL;
}

const struct buffer_uses *uses_of(const struct uses *uses, uint64_t buffer)
{
    return find((struct uses *)uses, buffer);
}

static struct buffer_uses *find_or_add(struct uses *uses, uint64_t buffer)
{
    struct uses_set *set = set_of(uses, buffer);
    struct buffer_uses *known = find(uses, buffer);
    unsigned way = 0;
    if (known)
        return known;
    while (way < USES_WAYS && set->ids[way])
        way++;
    if (way == USES_WAYS)
        way = set->oldest++ % USES_WAYS;
    set->ids[way] = buffer;
    set->buffers[way].count = set->buffers[way].oldest = 0;
    set->buffers[way].recorded = (struct order_set){{0}};
    return &set->buffers[way];
}

/* Launches are remembered apart from copies: a copy uses part of a buffer only. */
static int replaces(const struct use *use, const struct use *old)
{
    return use->stream == old->stream && (use->kind == USE_LAUNCH) == (old->kind == USE_LAUNCH);
}

void uses_add(struct uses *uses, uint64_t buffer, const struct use *use)
{
    struct buffer_uses *of = find_or_add(uses, buffer);
    uint32_t index = 0;
    while (index < of->count && !replaces(use, &of->uses[index]))
        index++;
    if (index == USES_KEPT)
        index = of->oldest++ % USES_KEPT;
    else if (index == of->count)
        of->count++;
    of->uses[index] = *use;
}

void uses_recorded(struct uses *uses, uint64_t buffer, unsigned stream)
{
    if (stream != ORDER_NOT_TRACKED)
        order_set_add(&find_or_add(uses, buffer)->recorded, stream);
}

void uses_drop(struct uses *uses, uint64_t buffer)
{
    struct uses_set *set = set_of(uses, buffer);
    for (unsigned i = 0; i < USES_WAYS; i++) {
        if (set->ids[i] == buffer)
            set->ids[i] = 0;
    }
}

static int is_unordered(const struct order_clocks *clocks, const struct use *use, unsigned by)
{
    return !clocks_is_ordered(clocks, use->stream, use->position, by);
}

/* Chooses what to report: a launch rather than a copy. */
static const struct use *worse(const struct use *found, const struct use *other)
{
    return found && found->kind == USE_LAUNCH ? found : other;
}

const struct use *uses_against_free(const struct uses *uses, const struct order_clocks *clocks, uint64_t buffer, unsigned by)
{
    const struct buffer_uses *of = uses_of(uses, buffer);
    const struct use *found = NULL;
    for (uint32_t i = 0; of && i < of->count; i++) {
        if (is_unordered(clocks, &of->uses[i], by) && !order_set_has(&of->recorded, of->uses[i].stream))
            found = worse(found, &of->uses[i]);
    }
    return found;
}

static int overlaps(const struct use *use, uint64_t start, uint64_t end)
{
    if (use->kind == USE_LAUNCH)
        return start <= use->start && end >= use->end;
    return start < use->end && end > use->start;
}

const struct use *uses_against_write(const struct uses *uses, const struct order_clocks *clocks, uint64_t buffer, unsigned by,
                                     uint64_t start, uint64_t end)
{
    const struct buffer_uses *of = uses_of(uses, buffer);
    const struct use *found = NULL;
    for (uint32_t i = 0; of && i < of->count; i++) {
        if (overlaps(&of->uses[i], start, end) && is_unordered(clocks, &of->uses[i], by))
            found = worse(found, &of->uses[i]);
    }
    return found;
}
