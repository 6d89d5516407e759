#include "visits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void beside_note(struct visit *visit)
{
    if (!order_is_wanted())
        return;
    visit->position = order_launch_position();
    for (size_t i = 0; visit->graph && i < visit->reached_count; i++)
        order_graph_given(&visit->reached[i].range, visit->handle);
}

int beside_find(const struct visit *visit, const struct heap_range *buffer, uint64_t from, uint64_t to,
                struct order_details *out)
{
    struct order_race race;
    if (!order_is_wanted() || !order_beside(&visit->position, buffer->id, from, to, &race))
        return 0;
    race.stream = visit->handle;
    order_describe(&race, 1, out);
    return 1;
}

void beside_named(const struct visit *visit, const struct heap_range *buffer, uint64_t from, uint64_t to, char out[192])
{
    char name[256];
    struct order_details *found = malloc(sizeof *found);
    out[0] = '\0';
    if (found && beside_find(visit, buffer, from, to, found))
        snprintf(out, 192, "%.150s on stream 0x%" PRIx64, use_name(&found->use, name, sizeof name), found->use.stream);
    free(found);
}
