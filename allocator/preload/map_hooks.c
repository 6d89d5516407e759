/* Tensor maps: what is encoded is compared with the buffer it is for, and remembered for the report of a fault. */
#include "preload_internal.h"

#include "base/clock.h"
#include "base/options.h"
#include "base/output.h"
#include "launch/tensor_maps.h"
#include "stacks/stack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bits of an element in memory; 0: unknown. */
static uint32_t bits_of(CUtensorMapDataType type)
{
    static const uint8_t bits[] = {
        [CU_TENSOR_MAP_DATA_TYPE_UINT8] = 8,         [CU_TENSOR_MAP_DATA_TYPE_UINT16] = 16,
        [CU_TENSOR_MAP_DATA_TYPE_UINT32] = 32,       [CU_TENSOR_MAP_DATA_TYPE_INT32] = 32,
        [CU_TENSOR_MAP_DATA_TYPE_UINT64] = 64,       [CU_TENSOR_MAP_DATA_TYPE_INT64] = 64,
        [CU_TENSOR_MAP_DATA_TYPE_FLOAT16] = 16,      [CU_TENSOR_MAP_DATA_TYPE_FLOAT32] = 32,
        [CU_TENSOR_MAP_DATA_TYPE_FLOAT64] = 64,      [CU_TENSOR_MAP_DATA_TYPE_BFLOAT16] = 16,
        [CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ] = 32,  [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32] = 32,
        [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ] = 32, [CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B] = 4,
    };
    return (unsigned)type < sizeof bits ? bits[type] : 0;
}

/* The buffer that begins at or before the map's base, the stack and the time. */
static void take_surroundings(struct tensor_map *map)
{
    struct heap_range range;
    if (heap_range_of(map->base, &range)) {
        map->buffer = range.id;
        map->room = range.size - (map->base - range.address);
    }
    map->stack = stack_capture_interned();
    map->time_ns = monotonic_ns();
}

static void note(struct tensor_map *map, const CUtensorMap *encoded)
{
    memcpy(map->bytes, encoded, sizeof map->bytes);
    take_surroundings(map);
    maps_add(map);
    if (map_excess(map) && preload_options->say == SAY_VERBOSE)
        output_note("note: %s makes a tensor map that reaches %" PRIu64 " bytes past the end of buffer #%" PRIu64, map->call,
                    map_excess(map), map->buffer);
}

void map_encoded(const char *call, const CUtensorMap *encoded, const struct map_shape *shape)
{
    struct tensor_map map = {.base = (uint64_t)(uintptr_t)shape->base,
                             .rank = shape->rank,
                             .element_bits = shape->is_interleaved ? 0 : bits_of(shape->type)};
    if (!is_active() || !heap_owns(map.base) || shape->rank < 1 || shape->rank > MAP_RANKS)
        return;
    snprintf(map.call, sizeof map.call, "%s", call);
    memcpy(map.size, shape->size, shape->rank * sizeof *map.size);
    memcpy(map.stride + 1, shape->stride, (shape->rank - 1) * sizeof *map.stride);
    if (shape->box)
        memcpy(map.box, shape->box, shape->rank * sizeof *map.box);
    note(&map, encoded);
}

CUresult map_moved(CUresult (*replace)(CUtensorMap *, void *), CUtensorMap *encoded, void *base)
{
    struct tensor_map map = {.rank = 0};
    int is_known = is_active() && encoded && maps_find(encoded, &map);
    CUresult result = replace(encoded, base);
    if (result != CUDA_SUCCESS || !is_known || !heap_owns((uint64_t)(uintptr_t)base))
        return result;
    snprintf(map.call, sizeof map.call, "cuTensorMapReplaceAddress");
    map.base = (uint64_t)(uintptr_t)base;
    map.buffer = map.room = map.copied_to = 0;
    note(&map, encoded);
    return result;
}

CUresult map_reencoded(CUresult (*set)(CUtensorMap *, map_class, map_class *), CUtensorMap *encoded, map_class wanted,
                       map_class *effective)
{
    struct tensor_map map = {.rank = 0};
    int is_known = is_active() && encoded && maps_find(encoded, &map);
    CUresult result = set(encoded, wanted, effective);
    if (result == CUDA_SUCCESS && is_known && memcmp(map.bytes, encoded, sizeof map.bytes) != 0) {
        memcpy(map.bytes, encoded, sizeof map.bytes);
        maps_add(&map);
    }
    return result;
}
