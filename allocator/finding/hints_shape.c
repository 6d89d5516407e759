
#include "parts.h"

#include <inttypes.h>
#include <stdio.h>

#define INTEGERS_MOST 16

/* The integer arguments that may be a length: above 1, and known to be of this launch. */
struct integers {
    struct {
        uint64_t value;
        uint32_t number;
    } list[INTEGERS_MOST];
    size_t count;
};

static struct integers integers_of(const struct finding *finding)
{
    struct integers found = {.count = 0};
    if (finding->arguments.certainty < CERTAIN_DERIVED)
        return found;
    for (size_t i = 0; i < finding->arguments.count && found.count < INTEGERS_MOST; i++) {
        const struct value_fact *value = &finding->arguments.list[i];
        int is_length = value->has_bits && !value->target && (value->size == 4 || value->size == 8) && value->bits > 1 &&
                        value->bits <= INT32_MAX;
        if (is_length) {
            found.list[found.count].value = value->bits;
            found.list[found.count++].number = value->number;
        }
    }
    return found;
}

static uint64_t threads_along(const struct evidence_site *site, int dimension)
{
    return (uint64_t)site->grid[dimension] * site->block[dimension];
}

static uint64_t coordinate_of(const struct finding *finding, int dimension)
{
    const struct evidence_site *site = &finding->where.site;
    return (uint64_t)site->block_index[dimension] * site->block[dimension] + finding->where.lane->thread[dimension];
}

/* Whether the faulting thread or its block has that coordinate in the dimension `from` or a later one. */
static int is_at(const struct finding *finding, uint64_t coordinate, int from)
{
    const struct evidence_site *site = &finding->where.site;
    for (int i = from; finding->where.lane && site->has_grid && i < 3; i++) {
        if (site->grid[i] > 1 && site->block_index[i] == coordinate)
            return 1;
        if (threads_along(site, i) > 1 && coordinate_of(finding, i) == coordinate)
            return 1;
    }
    return 0;
}

/* Whether an element for each thread explains the index, without rows. */
static int is_one_a_thread(const struct evidence_site *site, uint64_t index)
{
    return site->has_grid && threads_along(site, 1) * threads_along(site, 2) == 1 && threads_along(site, 0) > index;
}

/* Whether the access is to the row behind the last one, by a thread or block that has the number of that row. */
static int is_row_behind(const struct finding *finding, uint64_t width, uint64_t index, uint64_t elements)
{
    uint64_t rows = width ? elements / width : 0;
    if (width < 2 || elements % width || rows < 2 || index / width != rows)
        return 0;
    return is_at(finding, rows, is_one_a_thread(&finding->where.site, index) ? 1 : 0);
}

static void say_row(struct finding *finding, uint64_t width, uint64_t elements, const char *what_it_is)
{
    part_add(finding->hint,
             "the access is to row %" PRIu64 ", and the buffer has %" PRIu64 " rows of %" PRIu64
             " elements (%s): do the rows count from 0 here?",
             elements / width, elements / width, width, what_it_is);
}

int hint_take_row(struct finding *finding, uint64_t index, uint64_t elements)
{
    struct integers integers = integers_of(finding);
    size_t found = 0, matches = 0;
    for (size_t i = 0; i < integers.count; i++) {
        if (is_row_behind(finding, integers.list[i].value, index, elements)) {
            found = i;
            matches++;
        }
    }
    char argument[32];
    uint64_t width =
        finding->where.site.has_grid && threads_along(&finding->where.site, 1) > 1 ? threads_along(&finding->where.site, 0) : 0;
    if (matches == 1) {
        width = integers.list[found].value;
        snprintf(argument, sizeof argument, "argument %" PRIu32, integers.list[found].number);
    }
    if (matches > 1 || !is_row_behind(finding, width, index, elements))
        return 0;
    say_row(finding, width, elements, matches ? argument : "the width of the grid");
    return 1;
}

/* Whether the thread accessed the element of its own row and column, as a stride that does not divide the buffer has it. */
static int is_own_element(const struct finding *finding, uint64_t stride, uint64_t width, uint64_t index, uint64_t elements)
{
    uint64_t row = index / stride, column = index % stride;
    return elements % width == 0 && elements % stride != 0 && stride > width && row > 0 && row < elements / width &&
           column < width && is_at(finding, row, 1) && coordinate_of(finding, 0) == column;
}

int hint_take_stride(struct finding *finding, uint64_t index, uint64_t elements)
{
    struct integers integers = integers_of(finding);
    size_t width_at = 0, stride_at = 0, matches = 0;
    for (size_t i = 0; i < integers.count; i++) {
        for (size_t k = 0; k < integers.count; k++) {
            if (is_own_element(finding, integers.list[k].value, integers.list[i].value, index, elements)) {
                width_at = i;
                stride_at = k;
                matches++;
            }
        }
    }
    if (matches != 1)
        return 0;
    uint64_t width = integers.list[width_at].value;
    part_add(finding->hint,
             "row and column of the thread fit a stride of %" PRIu64 " (argument %" PRIu32 "), but the buffer has %" PRIu64
             " rows of %" PRIu64 " (argument %" PRIu32 "): the stride of another shape?",
             integers.list[stride_at].value, integers.list[stride_at].number, elements / width, width,
             integers.list[width_at].number);
    return 1;
}
