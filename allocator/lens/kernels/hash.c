#include "hash.h"

#include "hash.ptx.h"
#include "kernels/kernels.h"

#include <string.h>

enum { THREADS = 256, MOST_BLOCKS = 1024 };
#define BYTES_A_BLOCK ((uint64_t)THREADS * 16 * 4)

const char *const hash_kernel_ptx = hash_ptx;

/* As the kernel takes it. */
struct ranges {
    struct hash_range at[HASH_RANGES];
};

size_t hash_plan(struct hash_range *ranges, size_t count)
{
    uint32_t blocks = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t wanted = ranges[i].bytes / BYTES_A_BLOCK + 1;
        ranges[i].first = blocks;
        ranges[i].blocks = wanted < MOST_BLOCKS ? (uint32_t)wanted : MOST_BLOCKS;
        blocks += ranges[i].blocks;
    }
    return blocks;
}

CUresult hash_launch(CUfunction function, CUstream stream, const struct hash_range *ranges, size_t count, CUdeviceptr sums,
                     int is_folded)
{
    struct ranges given;
    uint64_t same = is_folded ? HASH_FOLDED * UINT64_C(0x0101010101010101) : 0;
    uint32_t number = (uint32_t)count, blocks = ranges[count - 1].first + ranges[count - 1].blocks;
    void *arguments[] = {&given, &number, &sums, &same};
    memset(&given, 0, sizeof given);
    memcpy(given.at, ranges, count * sizeof *ranges);
    return kernels_launch(function, blocks, THREADS, stream, arguments);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 32)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 29)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 32);
}

uint64_t hash_result(const struct hash_range *range, const uint64_t *sums)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < range->blocks; i++)
        sum += sums[range->first + i];
    return mix(sum ^ (range->bytes * UINT64_C(0x9e3779b97f4a7c15)));
}
