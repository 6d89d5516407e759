#include "tensor_maps.h"

#include "base/lock.h"

#include <string.h>

#define SIZE_SEARCHED 65536 /* bytes of a copy from the host: a larger one is data, and no list of maps */

int maps_are_copied;

static struct lock lock = LOCK(RANK_LEAF); /* a leaf */
static struct tensor_map maps[MAPS_KEPT];  /* a ring; all of this under the lock */
static uint64_t noted;
static size_t count; /* atomic, so that a copy in a program without maps takes no lock */
static struct maps_figures figures;

/* Returns NULL if there is none. */
static struct tensor_map *with_bytes(const void *bytes)
{
    for (size_t i = 0; i < count; i++)
        if (!memcmp(maps[i].bytes, bytes, MAP_BYTES))
            return &maps[i];
    return NULL;
}

void maps_add(const struct tensor_map *map)
{
    HOLD(&lock);
    figures.encoded++;
    figures.too_large += map_excess(map) != 0;
    struct tensor_map *place = with_bytes(map->bytes);
    if (!place) {
        place = &maps[noted++ % MAPS_KEPT];
        __atomic_store_n(&count, noted < MAPS_KEPT ? noted : MAPS_KEPT, __ATOMIC_RELAXED);
    }
    *place = *map;
}

int maps_find(const void *bytes, struct tensor_map *out)
{
    HOLD(&lock);
    const struct tensor_map *found = with_bytes(bytes);
    if (found)
        *out = *found;
    return found != NULL;
}

void maps_copied(uint64_t to, const void *from, size_t size)
{
    if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || !from ||
        (size > SIZE_SEARCHED && !__atomic_load_n(&maps_are_copied, __ATOMIC_RELAXED)))
        return;
    HOLD(&lock);
    for (size_t i = 0; i < count; i++) /* they are overwritten */
        maps[i].copied_to = maps[i].copied_to - to < size ? 0 : maps[i].copied_to;
    if (size > SIZE_SEARCHED)
        return;
    for (size_t at = -to % MAP_ALIGNMENT; at + MAP_BYTES <= size; at += MAP_ALIGNMENT) {
        struct tensor_map *map = with_bytes((const uint8_t *)from + at);
        if (!map)
            continue;
        map->copied_to = to + at;
        __atomic_store_n(&maps_are_copied, 1, __ATOMIC_RELAXED);
    }
}

uint64_t maps_base_at(uint64_t address)
{
    HOLD(&lock);
    for (size_t i = 0; i < count; i++)
        if (maps[i].copied_to == address && maps[i].base)
            return maps[i].base;
    return 0;
}

size_t maps_read(struct tensor_map *out)
{
    HOLD(&lock);
    size_t read = count;
    for (size_t i = 0; i < read; i++)
        out[i] = maps[(noted - 1 - i) % MAPS_KEPT];
    return read;
}

struct maps_figures maps_figures(void)
{
    HOLD(&lock);
    return figures;
}
