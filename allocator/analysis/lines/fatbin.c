#include "fatbin.h"

#include <string.h>

#define HEADER 16
#define PART_HEADER 64 /* at least */
#define COMPRESSED UINT64_C(0xa000)
enum { PART_CUBIN = 2 };

static uint64_t number_at(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;
    memcpy(&number, bytes, size);
    return number;
}

uint64_t fatbin_size(const void *start)
{
    const uint8_t *bytes = start;
    uint64_t header = number_at(bytes + 6, 2), size = number_at(bytes + 8, 8);
    return number_at(bytes, 4) == FATBIN_MAGIC && header >= HEADER && size < INT64_MAX ? header + size : 0;
}

struct span fatbin_next(struct span file, uint64_t *at, int *has_others)
{
    const struct span none = {NULL, 0};
    if (!*at)
        *at = file.size >= HEADER ? number_at(file.bytes + 6, 2) : file.size;
    for (;;) {
        struct span part = span_part(file, *at, PART_HEADER);
        if (!part.bytes)
            return none;
        uint64_t header = number_at(part.bytes + 4, 4), size = number_at(part.bytes + 8, 8);
        int is_cubin = number_at(part.bytes, 2) == PART_CUBIN;
        int is_compressed = (number_at(part.bytes + 40, 8) & COMPRESSED) != 0;
        struct span content = size <= file.size ? span_part(file, *at + header, size) : none;
        if (header < PART_HEADER || !content.bytes) {
            *at = file.size;
            *has_others = 1;
            return none;
        }
        *at += header + size;
        if (is_cubin && !is_compressed)
            return content;
        *has_others |= is_cubin;
    }
}
