#include "compare.h"

#include <string.h>

static int differs(int has_a, uint64_t a, int has_b, uint64_t b)
{
    return has_a && has_b && a != b;
}

static int differs_before(const struct seen_buffer *a, const struct seen_buffer *b, unsigned how)
{
    return how & SEEN_TWO_FILLS ? differs(a->has_folded_before, a->folded_before, b->has_folded_before, b->folded_before)
                                : differs(a->has_before, a->before, b->has_before, b->before);
}

static int differs_after(const struct seen_buffer *a, const struct seen_buffer *b, unsigned how)
{
    return how & SEEN_TWO_FILLS ? differs(a->has_folded_after, a->folded_after, b->has_folded_after, b->folded_after)
                                : differs(a->has_after, a->after, b->has_after, b->after);
}

static int is_other_kernel(const struct seen_event *a, const struct seen_event *b)
{
    return a->kind != b->kind || strcmp(a->name, b->name) != 0 || strcmp(a->symbol, b->symbol) != 0;
}

static int is_other_grid(const struct seen_event *a, const struct seen_event *b)
{
    return memcmp(a->grid, b->grid, sizeof a->grid) != 0 || memcmp(a->block, b->block, sizeof a->block) != 0 ||
           a->shared != b->shared;
}

/* Finds a scalar that differs, small or large. */
static int find_scalar(const struct seen_event *a, const struct seen_event *b, int is_large, size_t *index)
{
    size_t count = a->scalar_count < b->scalar_count ? a->scalar_count : b->scalar_count;
    for (*index = 0; *index < count; ++*index) {
        const struct seen_scalar *x = &a->scalars[*index], *y = &b->scalars[*index];
        if ((x->bytes > 8 || y->bytes > 8) != is_large)
            continue;
        if (x->argument != y->argument || x->bytes != y->bytes || strcmp(x->value, y->value) != 0)
            return 1;
    }
    *index = SIZE_MAX;
    return !is_large && a->scalar_count != b->scalar_count;
}

static int is_other_pointer(const struct seen_buffer *a, const struct seen_buffer *b)
{
    return strcmp(a->name, b->name) != 0 || a->argument != b->argument || a->at != b->at || a->size != b->size ||
           a->offset != b->offset || a->bytes != b->bytes;
}

static int find_pointer(const struct seen_event *a, const struct seen_event *b, size_t *index)
{
    size_t count = a->buffer_count < b->buffer_count ? a->buffer_count : b->buffer_count;
    for (*index = 0; *index < count; ++*index) {
        if (is_other_pointer(&a->buffers[*index], &b->buffers[*index]))
            return 1;
    }
    *index = SIZE_MAX;
    return a->buffer_count != b->buffer_count;
}

#define LARGE 64 /* bytes of a struct, of which a launch may leave members unset that are pointers of an earlier one */

static int is_in_large(const struct seen_event *event, const struct seen_buffer *buffer)
{
    for (size_t i = 0; i < event->scalar_count; i++) {
        if (event->scalars[i].argument == buffer->argument && event->scalars[i].bytes > LARGE)
            return 1;
    }
    return 0;
}

static int comes_before(const struct seen_buffer *one, const struct seen_buffer *other)
{
    return one->argument != other->argument ? one->argument < other->argument : one->at < other->at;
}

/* Whether events with different pointers differ in pointers within large structs alone, and all other buffers are known to
 * have held the same and to have been left the same. */
static int is_unused_pointer(const struct seen_event *a, const struct seen_event *b, unsigned how)
{
    size_t i = 0, j = 0, known = 0;
    while (i < a->buffer_count || j < b->buffer_count) {
        const struct seen_buffer *x = i < a->buffer_count ? &a->buffers[i] : NULL,
                                 *y = j < b->buffer_count ? &b->buffers[j] : NULL;
        if (x && y && !is_other_pointer(x, y)) {
            if (differs_before(x, y, how) || differs_after(x, y, how))
                return 0;
            known += x->has_after && y->has_after;
            i++;
            j++;
            continue;
        }
        int takes_x = x && (!y || !comes_before(y, x)), takes_y = y && (!x || !comes_before(x, y));
        if ((takes_x && !is_in_large(a, x)) || (takes_y && !is_in_large(b, y)))
            return 0;
        i += (size_t)takes_x;
        j += (size_t)takes_y;
    }
    return known != 0;
}

int seen_find_output(const struct seen_event *a, const struct seen_event *b, unsigned how, size_t *index)
{
    for (*index = 0; *index < a->buffer_count; ++*index) {
        const struct seen_buffer *x = &a->buffers[*index], *y = &b->buffers[*index];
        if (differs_after(x, y, how) && (seen_is_written(x) || seen_is_written(y)))
            return 1;
    }
    return 0;
}

/* Whether both have left the same, as far as is known. Then a member of a functor that differs was not used: compilers pass
 * those that nobody has set. */
static int has_same_outputs(const struct seen_event *a, const struct seen_event *b, unsigned how)
{
    size_t index, known = 0;
    for (size_t i = 0; i < a->buffer_count && i < b->buffer_count; i++)
        known += a->buffers[i].has_after && b->buffers[i].has_after;
    return known && a->buffer_count == b->buffer_count && !seen_find_output(a, b, how, &index);
}

/* Finds an input that differs: one that was written in one of the runs, if there is one. */
static int find_input(const struct seen_event *a, const struct seen_writers *of_a, uint64_t line_a, const struct seen_event *b,
                      const struct seen_writers *of_b, uint64_t line_b, unsigned how, struct seen_difference *found)
{
    int is_found = 0;
    for (size_t i = 0; i < a->buffer_count && !found->is_written; i++) {
        const struct seen_buffer *x = &a->buffers[i], *y = &b->buffers[i];
        if (!differs_before(x, y, how))
            continue;
        found->is_written = seen_writers_find(of_a, x->name, line_a) != 0 || seen_writers_find(of_b, y->name, line_b) != 0;
        if (found->is_written || !is_found)
            found->index = i;
        is_found = 1;
    }
    return is_found;
}

/* A set, or a copy that reads no buffer. */
static int is_of_host(const struct seen_event *event)
{
    int reads = 0;
    for (size_t i = 0; i < event->buffer_count; i++)
        reads |= event->buffers[i].has_before;
    return event->kind == SEEN_SET || (event->kind == SEEN_COPY && !reads);
}

struct seen_difference seen_compare(const struct seen_event *a, const struct seen_writers *of_a, uint64_t line_a,
                                    const struct seen_event *b, const struct seen_writers *of_b, uint64_t line_b, unsigned how)
{
    struct seen_difference found = {.kind = SEEN_EQUAL, .index = SIZE_MAX};
    size_t index;
    if (is_other_kernel(a, b)) {
        found.kind = SEEN_OTHER_KERNEL;
    } else if (is_other_grid(a, b)) {
        found.kind = SEEN_OTHER_GRID;
    } else if (strcmp(a->place, b->place) != 0) {
        found.kind = SEEN_OTHER_PLACE;
    } else if (find_scalar(a, b, 0, &index) && (index == SIZE_MAX || !has_same_outputs(a, b, how))) {
        found = (struct seen_difference){.kind = SEEN_OTHER_SCALAR, .index = index};
    } else if (find_pointer(a, b, &index)) {
        if (!is_unused_pointer(a, b, how))
            found = (struct seen_difference){.kind = SEEN_OTHER_POINTER, .index = index};
    } else {
        int is_other_output = seen_find_output(a, b, how, &index);
        if (find_input(a, of_a, line_a, b, of_b, line_b, how, &found) && (found.is_written || is_other_output))
            found.kind = SEEN_OTHER_INPUT;
        else if (is_other_output && is_of_host(a))
            found = (struct seen_difference){.kind = SEEN_OTHER_COPY, .index = index};
        else if (is_other_output && find_scalar(a, b, 1, &found.index))
            found.kind = SEEN_OTHER_STRUCT;
        else if (is_other_output)
            found = (struct seen_difference){.kind = SEEN_OTHER_OUTPUT, .index = index};
    }
    return found;
}

int seen_next_fresh(const struct seen_event *a, const struct seen_event *b, size_t *index)
{
    for (; *index < a->buffer_count && *index < b->buffer_count; ++*index) {
        const struct seen_buffer *x = &a->buffers[*index], *y = &b->buffers[*index];
        if (differs_before(x, y, 0) && !differs_before(x, y, SEEN_TWO_FILLS))
            return 1;
    }
    return 0;
}
