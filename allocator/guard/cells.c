#include "cells.h"

#define EXACT 15u /* numbers of cells that have a class each */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

/* The bits of a count from its first one to the third behind that, and how many follow. */
static unsigned low_bits(uint64_t count)
{
    return 60u - (unsigned)__builtin_clzll(count); /* count > EXACT, so it has at least five bits */
}

static uint32_t class_of(uint64_t count)
{
    if (count <= EXACT)
        return (uint32_t)(count - CELLS_LEAST);
    unsigned low = low_bits(count);
    return EXACT - CELLS_LEAST + 1 + (low - 1) * 8 + (uint32_t)(count >> low & 7);
}

static uint64_t count_of(uint32_t class)
{
    if (class <= EXACT - CELLS_LEAST)
        return class + CELLS_LEAST;
    uint32_t above = class - (EXACT - CELLS_LEAST + 1);
    return (uint64_t)(8 + above % 8) << (above / 8 + 1);
}

static uint64_t bytes_of(uint64_t page, uint64_t count)
{
    return page / count & ~(uint64_t)(CELLS_UNIT - 1);
}

uint64_t cells_bytes(uint64_t page, uint32_t class)
{
    return bytes_of(page, count_of(class));
}

int cells_for(uint64_t page, uint64_t size, uint64_t align, struct cells *out)
{
    if (!size || size > CELLS_SIZE_MOST || align > CELLS_UNIT)
        return 0;
    uint64_t needed = round_up(size + CELLS_REDZONE + round_up(CELLS_REDZONE, align), CELLS_UNIT), count = page / needed;
    if (count < CELLS_LEAST)
        return 0;
    uint32_t class = class_of(count);
    if (class >= CELLS_CLASSES)
        return 0;
    count = count_of(class);
    uint64_t bytes = bytes_of(page, count);
    *out = (struct cells){.class = class, .count = (uint32_t)count, .bytes = bytes, .leftover = page - count * bytes};
    return 1;
}

uint64_t cells_offset(uint64_t bytes, uint64_t size, uint64_t align, enum layout_side side)
{
    return side == LAYOUT_START ? round_up(CELLS_REDZONE, align) : (bytes - CELLS_REDZONE - size) & ~(align - 1);
}

int cells_may_be_alone(struct cells_turns turns, uint64_t page, uint64_t alone, uint64_t mapped)
{
    return alone + page <= turns.least * page || alone + page <= mapped / turns.part;
}

uint32_t cells_at(const struct cells *cells, uint64_t offset)
{
    uint64_t number = offset < cells->leftover ? 0 : (offset - cells->leftover) / cells->bytes;
    return number < cells->count ? (uint32_t)number : cells->count - 1;
}
