/* A finding made of a wrong element of a table. */
#include "finding.h"

#include "parts.h"

#include <inttypes.h>

static void add_why(struct finding *finding, const struct table_fact *table)
{
    const struct region_fact *region = table->region;
    const char *had = region ? region->released.owner : NULL, *has = region ? region->taken.owner : NULL;
    if (table->why == TABLE_OUTSIDE) {
        part_add(finding->headline, "%" PRId64 ", and %s has rows 0 to %" PRIu64, table->value.whole,
                 table->name[0] ? table->name : "the buffer", table->rows - 1);
        return;
    }
    part_add(finding->headline, "row %" PRId64 "%s%s", table->value.whole, table->name[0] ? " of " : "", table->name);
    if (table->why == TABLE_OTHER)
        part_add(finding->headline, ", which belongs to %s, not to %s", has && *has ? has : "nobody that is known",
                 table->wants);
    else if (region && region->taken.ns)
        part_add(finding->headline, ", which was free then");
    else
        part_add(finding->headline, ", which is free%s%s", had && *had ? ", released by " : "", had ? had : "");
}

static void add_hint(struct finding *finding, const struct table_fact *table)
{
    if (table->why == TABLE_OUTSIDE && table->value.whole == (int64_t)table->rows)
        part_add(finding->hint, "one past the last row: is the table off by one?");
    else if (table->why == TABLE_OUTSIDE && table->value.whole < 0)
        part_add(finding->hint, "a negative number that means \"none\" belongs into allow");
    else if (table->why == TABLE_FREE && table->region && table->region->taken.ns)
        part_add(finding->hint, "the row has a new owner by now: what this launch writes there is that one's data");
    else if (table->why == TABLE_FREE)
        part_add(finding->hint, "is the row released before its last launch, or is the table older than the release?");
}

void finding_of_table(struct finding *finding, const struct table_fact *table, const struct finding_origin *origin)
{
    *finding = (struct finding){.origin = *origin,
                                .kind = FINDING_TABLE,
                                .table = table,
                                .by = &table->by,
                                .region = table->region,
                                .access = {.source = NO_ARGUMENT},
                                .now_ns = table->now_ns};
    part_add(finding->what, FINDING_TABLE);
    part_add(finding->headline, "%s: %s %s given a table whose element %" PRIu64 " is ", FINDING_TABLE,
             table->by.kernel ? table->by.plain : "a CUDA graph", table->is_held ? "would be" : "is", table->element);
    add_why(finding, table);
    if (table->buffer->id) {
        finding->buffer = part_buffer(table->buffer, table->buffer_frames);
        finding->buffer.certainty = CERTAIN_EXACT;
        finding->buffer.from = FROM_START;
        finding->buffer.distance = table->address - table->buffer->address;
        finding->address =
            (struct address_fact){.certainty = CERTAIN_EXACT, .is_one = 1, .value = table->address, .is_in_arena = 1};
    }
    finding->identity = identity_of_table(table);
    add_hint(finding, table);
    finding_complete(finding);
}
