#include "rerun_launch.h"

#define ADDRESS_END ((uint64_t)1 << 57)

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
