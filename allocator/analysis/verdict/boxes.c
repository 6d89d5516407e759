#include "launches.h"

#include "base/reader.h"

#include <string.h>

#define MOST_ROWS 65536u     /* of a box; in shared memory there is room for fewer */
#define MOST_WORK (1u << 24) /* rows, and words that are compared: dumps and records are not trusted */

const struct tensor_map *boxes_map(const struct fault_memory *memory, const uint8_t *bytes, size_t count, size_t at, size_t *i)
{
    uint64_t word = load_u64(bytes + at);
    while (*i < memory->map_count) {
        const struct tensor_map *map = &memory->maps[(*i)++];
        int is_here = count - at >= MAP_BYTES && !memcmp(bytes + at, map->bytes, MAP_BYTES);
        if (is_here || (word && word == map->copied_to))
            return map;
    }
    return NULL;
}

/* The part of the box that lies in the tensor: the rest is not accessed. */
struct part {
    uint64_t first[MAP_RANKS], end[MAP_RANKS];
};

static int part_of(const struct tensor_map *map, const struct evidence_box *box, struct part *part)
{
    for (uint32_t i = 0; i < map->rank; i++) {
        int64_t first = box->corner[i], end = first + map->box[i];
        part->first[i] = first < 0 ? 0 : (uint64_t)first;
        part->end[i] = end < 0 ? 0 : (uint64_t)end;
        if (part->end[i] > map->size[i])
            part->end[i] = map->size[i];
        if (part->end[i] <= part->first[i])
            return 0;
    }
    return 1;
}

int map_is_freed(const struct tensor_map *map, const struct fault_memory *memory)
{
    for (size_t i = 0; i < memory->near_count; i++)
        if (memory->near[i].id == map->buffer && memory->near[i].freed_ns)
            return 1;
    return 0;
}

/* Goes to the next row. Returns 0 behind the last one. */
static int next_row(const struct tensor_map *map, const struct part *part, uint64_t *at)
{
    for (uint32_t i = 1; i < map->rank; i++) {
        if (++at[i] < part->end[i])
            return 1;
        at[i] = part->first[i];
    }
    return 0;
}

/* Finds the row that faults. Returns 0 if there is none. */
static int find_row(const struct tensor_map *map, const struct evidence_box *box, const struct fault_memory *memory,
                    uint64_t *work, uint64_t *address, uint64_t *bytes)
{
    const uint64_t element = map->element_bits / 8;
    struct part part;
    if (!element || !map->buffer || !map->box[0] || map->rank != box->dimensions || !part_of(map, box, &part))
        return 0;
    uint64_t at[MAP_RANKS];
    unsigned rows = 0;
    memcpy(at, part.first, sizeof at);
    *bytes = (part.end[0] - part.first[0]) * element;
    do {
        uint64_t offset = part.first[0] * element;
        for (uint32_t i = 1; i < map->rank; i++)
            offset += at[i] * map->stride[i];
        *address = map->base + offset;
        if (map_is_freed(map, memory) || offset >= map->room || *bytes > map->room - offset)
            return 1;
        ++*work;
    } while (next_row(map, &part, at) && ++rows < MOST_ROWS);
    return 0;
}

int boxes_lead(const struct tensor_map *map, const struct evidence_box *box, const struct fault_memory *memory,
               uint64_t address)
{
    uint64_t work = 0, found = 0, bytes;
    return find_row(map, box, memory, &work, &found, &bytes) && found == address;
}

static void place(struct evidence_stop *stop, const struct fault_memory *memory, uint64_t *work)
{
    uint64_t address, bytes, found_address = 0, found_bytes = 0;
    unsigned found = 0;
    for (size_t at = 0; at + 8 <= stop->parameter_bytes && *work < MOST_WORK; at += 8) {
        const struct tensor_map *map;
        size_t i = 0;
        *work += memory->map_count;
        while ((map = boxes_map(memory, stop->parameters, stop->parameter_bytes, at, &i)) != NULL) {
            if (!find_row(map, &stop->box, memory, work, &address, &bytes))
                continue;
            found++;
            found_address = address;
            found_bytes = bytes;
        }
    }
    if (found != 1 || found_bytes > UINT32_MAX)
        return;
    stop->lanes[0].address = found_address;
    stop->lanes[0].certainty = CERTAIN_DERIVED;
    stop->access_bytes = (uint32_t)found_bytes;
}

void boxes_place(struct evidence *evidence, const struct fault_memory *memory)
{
    uint64_t work = 0;
    for (size_t i = 0; i < evidence->stop_count && memory->map_count; i++) {
        struct evidence_stop *stop = &evidence->stops[i];
        if (stop->box.dimensions && stop->lane_count == 1 && stop->parameters)
            place(stop, memory, &work);
    }
}
