#include "rerun_launch.h"

#include "snapshot.h"

#include <string.h>

#define ADDRESS_END ((uint64_t)1 << 57)

struct rerun_launch rerun_launch_of(const struct launch_entry *entry, const uint8_t *arguments)
{
    struct rerun_launch launch = {.shared_bytes = entry->shared_bytes,
                                  .is_cooperative = (uint32_t)entry->is_cooperative,
                                  .argument_bytes = entry->argument_bytes,
                                  .arguments = arguments};
    memcpy(launch.grid, entry->grid, sizeof launch.grid);
    memcpy(launch.block, entry->block, sizeof launch.block);
    memcpy(launch.cluster, entry->cluster, sizeof launch.cluster);
    return launch;
}

int rerun_pinned_is_sound(const struct rerun_range *ranges, size_t count, uint64_t arena_start, uint64_t arena_end)
{
    uint64_t end = 0, left = RERUN_PINNED_BYTES;
    if (count > RERUN_PINNED)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const struct rerun_range *range = &ranges[i];
        if (!range->bytes || range->bytes > left || range->address < end || range->address > ADDRESS_END - range->bytes)
            return 0;
        end = range->address + range->bytes;
        left -= range->bytes;
        if (range->address < arena_end && end > arena_start)
            return 0;
    }
    return 1;
}
