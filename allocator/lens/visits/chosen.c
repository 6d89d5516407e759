#include "jobs.h"

#include "stacks/labels.h"
#include "lens/values/types.h"

#define NAMES 3 /* of a kernel */

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
    if (visit->copy)
        out[count++] = visit->copy;
    for (size_t i = 0; i < visit->graph_function_count; i++)
        count += add_names(visit->graph_functions[i], out + count);
    return count;
}

int chosen_visit(const struct filter *filter, const struct visit *visit)
{
    struct stack_frame frames[STACK_READ];
    struct filter_place places[STACK_READ];
    const char *names[1 + NAMES * VISIT_GRAPH_KERNELS];
    size_t count = 0;
    if (filter_needs_places(filter))
        count = visit->stack.python ? stack_interned_frames(visit->stack.python, frames, STACK_READ)
                                    : stack_frames(&visit->stack, frames, STACK_READ);
    for (size_t i = 0; i < count; i++)
        places[i] = (struct filter_place){frames[i].file, frames[i].line};
    return filter_chooses(filter, &(const struct filter_launch){.names = names,
                                                                .name_count = names_of(visit, names),
                                                                .number = visit->number,
                                                                .label = visit->label,
                                                                .places = places,
                                                                .place_count = count});
}
