#include "plan.h"

#include <string.h>

#define MOST_FIGURES (UINT64_C(2) << 20) /* of a NaN's inputs up to this size all figures are made, which costs more */

static size_t rounded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* Memory that grows from its start; without any, only counted. */
struct room {
    uint8_t *memory;
    size_t size, used;
};

static uint32_t take(struct room *room, size_t bytes)
{
    size_t at = room->used;
    if (at + bytes > UINT32_MAX || (room->memory && at + bytes > room->size))
        return 0;
    room->used += rounded(bytes);
    return (uint32_t)at;
}

struct making {
    const struct plan_rules *rules;
    struct room room;
    struct plan *plan; /* NULL: only counted */
    size_t most_items;
};

unsigned plan_kernel(const struct plan_rules *rules, const struct plan_item *item, unsigned when)
{
    int wants_figures = !rules->is_for_nan || item->type == VALUE_WORD || (when == PLAN_BEFORE && item->bytes <= MOST_FIGURES);
    return wants_figures ? MEASURE_FIGURES : MEASURE_NANS;
}

static void add(struct making *making, const struct plan_item *wanted, unsigned when)
{
    struct plan_item item = *wanted;
    size_t before = making->room.used;
    if (when & PLAN_BEFORE)
        item.before = take(&making->room, measure_bytes(plan_kernel(making->rules, &item, PLAN_BEFORE), item.bytes));
    if (when & PLAN_AFTER)
        item.after = take(&making->room, measure_bytes(plan_kernel(making->rules, &item, PLAN_AFTER), item.bytes));
    int has_all = (!(when & PLAN_BEFORE) || item.before) && (!(when & PLAN_AFTER) || item.after);
    if (!has_all)
        making->room.used = before;
    else if (making->plan && making->plan->count < making->most_items)
        making->plan->items[making->plan->count++] = item;
}

/* When to look at the pointer, or at another one that is the same: it is measured once. */
static unsigned when_of(const struct plan_rules *rules, const struct visit *visit, size_t index)
{
    unsigned when = rules->when ? 0 : PLAN_BEFORE | PLAN_AFTER;
    for (size_t i = index; rules->when && i < visit->reached_count; i++) {
        if (visit->reached[i].pointer == visit->reached[index].pointer)
            when |= rules->when(visit, &visit->reached[i]);
    }
    return when;
}

static void add_pointer(struct making *making, const struct visit *visit, size_t index)
{
    const struct reached *reached = &visit->reached[index];
    const struct known_type known = types_of(reached->function, reached);
    struct plan_item item = {.reached = (uint32_t)index, .bytes = reached->bytes, .type = known.type, .from = known.from};
    unsigned when = when_of(making->rules, visit, index);
    if (making->rules->is_for_nan && !value_is_float(known.type))
        return;
    if (when && reached->bytes >= value_width(known.type))
        add(making, &item, when);
}

size_t plan_make(const struct plan_rules *rules, const struct visit *visit, uint8_t *memory, size_t size)
{
    size_t pointers = visit->reached_count < rules->most_pointers ? visit->reached_count : rules->most_pointers;
    size_t head = sizeof(struct plan) + pointers * sizeof(struct plan_item);
    struct making making = {
        rules, {memory, size, head}, memory && size >= head ? (struct plan *)(void *)memory : NULL, pointers};
    if (memory && !making.plan)
        return 0;
    for (size_t i = 0, taken = 0; i < visit->reached_count && taken < pointers; i++) {
        if (visit->reached[i].is_out_of_way || !visit->reached[i].function || visit_first_pointer(visit, i) < i)
            continue;
        taken++;
        add_pointer(&making, visit, i);
    }
    if (making.plan)
        making.plan->used = (uint32_t)making.room.used;
    return making.room.used;
}

static void submit_to(const struct plan_rules *rules, struct visit_part *part, unsigned when, unsigned kernel)
{
    const struct plan *plan = (const struct plan *)(const void *)part->memory;
    struct measure_item items[FIGURES_ITEMS];
    size_t count = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct plan_item *item = &plan->items[i];
        uint32_t out = when == PLAN_BEFORE ? item->before : item->after;
        if (out && plan_kernel(rules, item, when) == kernel)
            items[count++] =
                (struct measure_item){part->visit->reached[item->reached].pointer, item->bytes, item->type, part->memory + out};
        if (count == FIGURES_ITEMS) {
            measure_submit(part, kernel, items, count, rules->has_fill);
            count = 0;
        }
    }
    measure_submit(part, kernel, items, count, rules->has_fill);
}

void plan_submit(const struct plan_rules *rules, struct visit_part *part, unsigned when)
{
    if (part->bytes < sizeof(struct plan))
        return;
    submit_to(rules, part, when, MEASURE_FIGURES);
    submit_to(rules, part, when, MEASURE_NANS);
}

const struct plan_item *plan_find(const uint8_t *results, size_t reached)
{
    const struct plan *plan = (const struct plan *)(const void *)results;
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->items[i].reached == reached)
            return &plan->items[i];
    return NULL;
}
