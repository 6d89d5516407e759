#include "jobs.h"

#include "base/lock.h"
#include "stacks/labels.h"
#include "inspect/values/types.h"

#define NAMES 3      /* of a kernel */
#define SHAPES 16384 /* room; three quarters are used */

/* The shapes of which a launch was chosen, of all filters. Under the lock, a leaf. */
static struct {
    struct lock lock;
    uint64_t seen[SHAPES]; /* 0: free */
    size_t count;
} shapes = {.lock = LOCK(RANK_LEAF)};

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    return (hash ^ value ^ hash >> 29) * UINT64_C(0x100000001b3); /* FNV-1a's prime */
}

/* What a shape is: the kernel, its grid, block, cluster and shared memory, and the sizes of the buffers that the arguments
 * point to. Never 0. */
static uint64_t shape_of(const struct filter *filter, const struct visit *visit)
{
    uint64_t hash = mixed(mixed((uintptr_t)filter, (uintptr_t)visit->function), (uintptr_t)visit->graph);
    for (int i = 0; i < 3; i++)
        hash = mixed(mixed(mixed(hash, visit->grid[i]), visit->block[i]), visit->cluster[i]);
    hash = mixed(hash, visit->shared_bytes);
    for (size_t i = 0; i < visit->reached_count; i++)
        hash = mixed(hash, visit->reached[i].range.size);
    return hash ? hash : 1;
}

/* Whether no launch of its shape was chosen before. Without room for another shape, none is new. */
static int is_new(const struct filter *filter, const struct visit *visit)
{
    uint64_t shape = shape_of(filter, visit);
    size_t at = shape % SHAPES;
    HOLD(&shapes.lock);
    while (shapes.seen[at] && shapes.seen[at] != shape)
        at = (at + 1) % SHAPES;
    int is_first = !shapes.seen[at] && shapes.count < SHAPES / 4 * 3;
    if (is_first)
        shapes.seen[at] = shape;
    shapes.count += (size_t)is_first;
    return is_first;
}

static size_t add_names(const struct launch_function *function, const char **out)
{
    const struct kernel_names *names = types_names(function);
    if (!names)
        return 0;
    out[0] = names->mangled;
    out[1] = names->demangled;
    out[2] = names->plain;
    return NAMES;
}

int chosen_function(const struct filter *filter, const struct launch_function *function)
{
    const char *names[NAMES];
    return filter_may_choose(filter, names, add_names(function, names));
}

/* Asks without the places, which cost the most. */
int chosen_number(const struct filter *filter, const struct launch_function *function, uint64_t number)
{
    const char *names[NAMES];
    if (filter_needs_places(filter))
        return 1;
    const struct filter_launch launch = {
        .names = names, .name_count = add_names(function, names), .number = number, .label = label_current()};
    return filter_chooses(filter, &launch);
}

static size_t names_of(const struct visit *visit, const char **out)
{
    size_t count = 0;
    if (visit->function)
        return add_names(visit->function, out);
    for (size_t i = 0; i < visit->graph_function_count; i++)
        count += add_names(visit->graph_functions[i], out + count);
    return count;
}

int chosen_visit(const struct filter *filter, const struct visit *visit)
{
    struct stack_frame frames[STACK_READ];
    struct filter_place places[STACK_READ];
    const char *names[NAMES * VISIT_GRAPH_KERNELS];
    size_t count = 0;
    if (filter_needs_places(filter))
        count = visit->stack.python ? stack_interned_frames(visit->stack.python, frames, STACK_READ)
                                    : stack_frames(&visit->stack, frames, STACK_READ);
    for (size_t i = 0; i < count; i++)
        places[i] = (struct filter_place){frames[i].file, frames[i].line};
    const struct filter_launch launch = {.names = names,
                                         .name_count = names_of(visit, names),
                                         .number = visit->number,
                                         .label = visit->label,
                                         .places = places,
                                         .place_count = count};
    return filter_chooses(filter, &launch) && (!filter_wants_new(filter) || is_new(filter, visit));
}
