#include "figures.h"

#include <math.h>
#include <string.h>

struct format {
    unsigned width, exponent_bits, mantissa_bits, is_signed, has_infinity;
};

struct part {
    uint64_t finite, zeros, nans, infinities, low, high;
    double sum, squares;
    uint64_t first_nan, last_nan, hash;
};

struct nans {
    uint64_t nans, infinities, first_nan, first_infinity, last_nan, last_infinity;
};

static struct format format_of(uint32_t packed)
{
    return (struct format){packed & 0xff, packed >> 8 & 0xff, packed >> 16 & 0xff, packed >> 24 & 1, packed >> 25 & 1};
}

static const struct twin_item *item_of(const struct twin_items *items, uint32_t block)
{
    uint32_t i = 0;
    while (i + 1 < items->count && block >= items->items[i + 1].first_block)
        i++;
    return &items->items[i];
}

static uint64_t load(uint64_t address, size_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, (const void *)(uintptr_t)address, bytes);
    return bits;
}

static uint64_t ones(unsigned bits)
{
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static int is_special(uint64_t bits, const struct format *f)
{
    uint64_t all = ones(f->exponent_bits + f->mantissa_bits), exponent = ones(f->exponent_bits) << f->mantissa_bits;
    return f->exponent_bits && (f->has_infinity ? (bits & exponent) == exponent : (bits & all) == all);
}

static double value_of(uint64_t bits, const struct format *f)
{
    unsigned spare = 64 - 8 * f->width;
    if (!f->exponent_bits)
        return f->is_signed ? (double)((int64_t)(bits << spare) >> spare) : (double)bits;
    int exponent = (int)(bits >> f->mantissa_bits & ones(f->exponent_bits)), bias = (1 << (f->exponent_bits - 1)) - 1;
    uint64_t mantissa = bits & ones(f->mantissa_bits);
    if (exponent)
        mantissa |= UINT64_C(1) << f->mantissa_bits;
    double value = ldexp((double)mantissa, (exponent ? exponent : 1) - bias - (int)f->mantissa_bits);
    return bits >> (8 * f->width - 1) ? -value : value;
}

static uint64_t key_of(uint64_t bits, const struct format *f)
{
    uint64_t sign = UINT64_C(1) << (8 * f->width - 1);
    if (f->exponent_bits && bits & sign)
        return ~bits & ones(8 * f->width);
    return f->is_signed ? bits ^ sign : bits;
}

static uint64_t mixed(uint64_t word, uint64_t place)
{
    uint64_t hash = (word ^ (place + 1) * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 32) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 29;
}

static void enter_special(struct part *part, int is_nan, uint64_t index)
{
    part->nans += (uint64_t)is_nan;
    part->infinities += (uint64_t)!is_nan;
    if (is_nan && !part->first_nan)
        part->first_nan = index + 1;
    if (is_nan)
        part->last_nan = index + 1;
}

static void enter(struct part *part, uint64_t bits, const struct format *f, double shift)
{
    uint64_t key = key_of(bits, f);
    double off = value_of(bits, f) - shift;
    part->low = !part->finite || key < part->low ? key : part->low;
    part->high = !part->finite || key > part->high ? key : part->high;
    part->finite++;
    part->zeros += !(f->exponent_bits ? bits & ones(8 * f->width - 1) : bits);
    part->sum += off;
    part->squares += off * off;
}

/* The bytes of one block: an equal share of the item's chunks of 16. */
static void share_of(const struct twin_item *item, uint32_t block, uint64_t *first, uint64_t *end)
{
    uint64_t chunks = (item->bytes + 15) / 16, each = (chunks + item->blocks - 1) / item->blocks;
    *first = (block - item->first_block) * each * 16;
    *end = *first + each * 16;
    *first = *first < item->bytes ? *first : item->bytes;
    *end = *end < item->bytes ? *end : item->bytes;
}

static void copy_ends(const struct twin_item *item, const struct format *f)
{
    uint64_t whole = item->bytes / f->width * f->width, bytes = whole < TWIN_ENDS ? whole : TWIN_ENDS;
    uint8_t *out = (uint8_t *)(uintptr_t)item->out;
    memcpy(out, (const void *)(uintptr_t)item->address, bytes);
    memcpy(out + TWIN_ENDS, (const void *)(uintptr_t)(item->address + whole - bytes), bytes);
}

static double shift_of(const struct twin_item *item, const struct format *f)
{
    uint64_t bits = item->bytes < f->width ? 0 : load(item->address, f->width);
    return is_special(bits, f) ? 0 : value_of(bits, f);
}

/* One thread does the work of its block. */
void figures_twin(const cusim_thread *thread, void *const *arguments)
{
    uint32_t block = thread->block_index[0];
    const struct twin_item *item = item_of(arguments[0], block);
    const struct format f = format_of(item->format);
    struct part part = {0};
    uint64_t at, end;
    if (thread->thread_index[0])
        return;
    share_of(item, block, &at, &end);
    uint64_t word = at;
    for (; word < end; word += 8)
        part.hash += mixed(load(item->address + word, end - word < 8 ? end - word : 8), word / 8);
    for (double shift = shift_of(item, &f); at + f.width <= end; at += f.width) {
        uint64_t bits = load(item->address + at, f.width);
        if (is_special(bits, &f))
            enter_special(&part, (bits & ones(f.mantissa_bits)) != 0, at / f.width);
        else
            enter(&part, bits, &f, shift);
    }
    memcpy((uint8_t *)(uintptr_t)item->out + 2 * (size_t)TWIN_ENDS + (block - item->first_block) * sizeof part, &part,
           sizeof part);
    if (block == item->first_block)
        copy_ends(item, &f);
}

void nans_twin(const cusim_thread *thread, void *const *arguments)
{
    uint32_t block = thread->block_index[0];
    const struct twin_item *item = item_of(arguments[0], block);
    const struct format f = format_of(item->format);
    struct nans found = {0};
    uint64_t at, end;
    if (thread->thread_index[0])
        return;
    share_of(item, block, &at, &end);
    for (; at + f.width <= end; at += f.width) {
        uint64_t bits = load(item->address + at, f.width), index = at / f.width + 1;
        if (!is_special(bits, &f))
            continue;
        int is_nan = (bits & ones(f.mantissa_bits)) != 0;
        found.nans += (uint64_t)is_nan;
        found.infinities += (uint64_t)!is_nan;
        found.last_nan = is_nan ? index : found.last_nan;
        found.last_infinity = is_nan ? found.last_infinity : index;
        found.first_nan = is_nan && !found.first_nan ? index : found.first_nan;
        found.first_infinity = !is_nan && !found.first_infinity ? index : found.first_infinity;
    }
    if (found.nans || found.infinities)
        memcpy((uint8_t *)(uintptr_t)item->out + (block - item->first_block) * sizeof found, &found, sizeof found);
}
