#include "measure.h"

#include "inspect/kernels/elements.ptx.h"

#include <string.h>

#define BYTES_A_BLOCK 32768u
#define MOST_BLOCKS 512u
#define MOST_FIGURES (UINT64_C(2) << 20) /* of a NaN's inputs up to this size all figures are made, which costs more */

_Static_assert(sizeof(struct figures_items) == sizeof(struct figures_item) * FIGURES_ITEMS + 8, "as the kernels see it");

const char *measure_ptx(void)
{
    return elements_ptx;
}

static uint32_t blocks_of(uint64_t bytes)
{
    uint64_t blocks = (bytes + BYTES_A_BLOCK - 1) / BYTES_A_BLOCK;
    return blocks < MOST_BLOCKS ? (uint32_t)blocks : MOST_BLOCKS;
}

size_t measure_bytes(unsigned kernel, uint64_t bytes)
{
    if (kernel == MEASURE_NANS)
        return blocks_of(bytes) * sizeof(struct nans_part);
    return sizeof(struct figures_head) + blocks_of(bytes) * sizeof(struct figures_part);
}

static uint32_t format_of(enum value_type type)
{
    struct value_format format = value_is_float(type) ? value_format(type) : (struct value_format){0, 0, 0};
    return FIGURES_FORMAT(value_width(type), format.exponent_bits, format.mantissa_bits,
                          value_is_signed(type) || value_is_float(type), format.has_infinity);
}

static void submit(struct visit_part *part, unsigned kernel, struct figures_items *items)
{
    const struct figures_item *last = &items->items[items->count - 1];
    visit_launch(part, kernel, last->first_block + last->blocks, FIGURES_THREADS, (void *[]){items});
}

void measure_submit(struct visit_part *part, unsigned kernel, const struct measure_item *items, size_t count, int has_fill)
{
    struct figures_items sent = {.has_fill = (uint32_t)has_fill};
    uint32_t blocks = 0;
    for (size_t i = 0; i < count; i++) {
        struct figures_item item = {.address = items[i].address,
                                    .bytes = items[i].bytes,
                                    .out = (uint64_t)(uintptr_t)items[i].out,
                                    .format = format_of(items[i].type),
                                    .first_block = blocks,
                                    .blocks = blocks_of(items[i].bytes)};
        sent.items[sent.count++] = item;
        blocks += item.blocks;
        if (sent.count == FIGURES_ITEMS || i + 1 == count) {
            submit(part, kernel, &sent);
            sent.count = blocks = 0;
        }
    }
}

/* ---- reading ---- */

/* Turns a key back into the value's bits: see key_of() in elements.cu. */
static uint64_t bits_of_key(uint64_t key, enum value_type type)
{
    unsigned bits = (unsigned)(8 * value_width(type));
    uint64_t sign = UINT64_C(1) << (bits - 1), all = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    if (value_is_float(type) && !(key & sign))
        return ~key & all;
    return format_of(type) >> 24 & FIGURES_SIGNED ? key ^ sign : key;
}

static void add(struct figures_part *to, const struct figures_part *from)
{
    if (from->finite) {
        to->low = !to->finite || from->low < to->low ? from->low : to->low;
        to->high = !to->finite || from->high > to->high ? from->high : to->high;
    }
    to->finite += from->finite;
    to->zeros += from->zeros;
    to->nans += from->nans;
    to->infinities += from->infinities;
    to->fresh += from->fresh;
    to->sum += from->sum;
    to->squares += from->squares;
    if (from->first_nan && (!to->first_nan || from->first_nan < to->first_nan))
        to->first_nan = from->first_nan;
    to->last_nan = from->last_nan > to->last_nan ? from->last_nan : to->last_nan;
    to->hash += from->hash;
}

static void read_values(const struct figures_part *sum, struct measured *out)
{
    uint64_t first = value_bits(out->type, out->first);
    double shift = out->count ? value_of_bits(out->type, first) : 0, count = (double)sum->finite;
    if (shift - shift != 0) /* not finite */
        shift = 0;
    out->least = bits_of_key(sum->low, out->type);
    out->greatest = bits_of_key(sum->high, out->type);
    out->min = value_of_bits(out->type, out->least);
    out->max = value_of_bits(out->type, out->greatest);
    double off = sum->sum / count, variance = sum->squares / count - off * off;
    out->mean = shift + off;
    out->deviation = variance > 0 || variance != variance ? __builtin_sqrt(variance) : 0; /* an instruction: CMakeLists.txt */
}

void measure_read(const uint8_t *from, uint64_t bytes, enum value_type type, struct measured *out)
{
    struct figures_head head;
    struct figures_part sum = {0}, part;
    memcpy(&head, from, sizeof head);
    for (uint32_t i = 0; i < blocks_of(bytes); i++) {
        memcpy(&part, from + sizeof head + i * sizeof part, sizeof part);
        add(&sum, &part);
    }
    *out = (struct measured){.type = type,
                             .count = bytes / value_width(type),
                             .finite = sum.finite,
                             .zeros = sum.zeros,
                             .nans = sum.nans,
                             .infinities = sum.infinities,
                             .fresh = sum.fresh,
                             .first_nan = sum.first_nan - (sum.first_nan != 0),
                             .last_nan = sum.last_nan - (sum.last_nan != 0),
                             .hash = sum.hash};
    memcpy(out->first, head.first, sizeof out->first);
    memcpy(out->last, head.last, sizeof out->last);
    out->ends = FIGURES_ENDS / value_width(type);
    out->ends = out->count < out->ends ? (size_t)out->count : out->ends;
    if (sum.finite)
        read_values(&sum, out);
}

static uint64_t earlier(uint64_t one, uint64_t other)
{
    return !one || (other && other < one) ? other : one;
}

void measure_count(const uint8_t *from, uint64_t bytes, struct counted *out)
{
    struct nans_part part;
    *out = (struct counted){0};
    for (uint32_t i = 0; i < blocks_of(bytes); i++) {
        memcpy(&part, from + i * sizeof part, sizeof part);
        out->nans += part.nans;
        out->infinities += part.infinities;
        out->fresh += part.fresh;
        out->first_nan = earlier(out->first_nan, part.first_nan);
        out->first_infinity = earlier(out->first_infinity, part.first_infinity);
        out->last_nan = part.last_nan > out->last_nan ? part.last_nan : out->last_nan;
        out->last_infinity = part.last_infinity > out->last_infinity ? part.last_infinity : out->last_infinity;
    }
    out->first_nan -= out->first_nan != 0;
    out->first_infinity -= out->first_infinity != 0;
    out->last_nan -= out->last_nan != 0;
    out->last_infinity -= out->last_infinity != 0;
}

/* ---- the plan of a launch ---- */

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
    room->used += (bytes + 7) / 8 * 8;
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

static void add_item(struct making *making, const struct plan_item *wanted, unsigned when)
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
        add_item(making, &item, when);
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
    return making.room.used;
}

static void submit_planned(const struct plan_rules *rules, struct visit_part *part, unsigned when, unsigned kernel)
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
    }
    measure_submit(part, kernel, items, count, rules->has_fill);
}

void plan_submit(const struct plan_rules *rules, struct visit_part *part, unsigned when)
{
    if (part->bytes < sizeof(struct plan))
        return;
    submit_planned(rules, part, when, MEASURE_FIGURES);
    submit_planned(rules, part, when, MEASURE_NANS);
}

const struct plan_item *plan_find(const uint8_t *results, size_t reached)
{
    const struct plan *plan = (const struct plan *)(const void *)results;
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->items[i].reached == reached)
            return &plan->items[i];
    return NULL;
}
