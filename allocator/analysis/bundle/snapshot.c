#include "snapshot.h"

struct rerun_launch rerun_launch_of(const struct launch_entry *entry, const uint8_t *arguments)
{
    return (struct rerun_launch){.shape = entry->shape,
                                 .shared_bytes = entry->shared_bytes,
                                 .is_cooperative = (uint32_t)entry->is_cooperative,
                                 .argument_bytes = entry->argument_bytes,
                                 .arguments = arguments};
}

/* ---- tensor maps ---- */

uint64_t map_extent(const struct tensor_map *map)
{
    uint64_t extent = 0, part;
    if (!map->element_bits || __builtin_mul_overflow(map->size[0], map->element_bits, &extent))
        return 0;
    extent = (extent + 7) / 8;
    for (uint32_t i = 1; i < map->rank; i++) {
        if (!map->size[i])
            return 0;
        if (__builtin_mul_overflow(map->size[i] - 1, map->stride[i], &part) || __builtin_add_overflow(extent, part, &extent))
            return UINT64_MAX;
    }
    return extent;
}

uint64_t map_excess(const struct tensor_map *map)
{
    uint64_t extent = map_extent(map);
    return map->buffer && extent > map->room ? extent - map->room : 0;
}

int map_is_misencoded(const struct tensor_map *map)
{
    uint64_t bytes = map->size[0] * map->element_bits / 8;
    int is_dense = 1;
    for (uint32_t i = 1; i < map->rank; i++) {
        is_dense &= map->stride[i] == bytes;
        bytes *= map->size[i];
    }
    return map->element_bits && map->buffer && !map_excess(map) && map->room < 128u << 10 && !is_dense &&
           (map->bytes[85 / 8] >> 85 % 8 & 1);
}
