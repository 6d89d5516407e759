/* The kernel cufence_hash on the host: the first thread of a range's first block does all of it. */
#include "kernel.h"

#include <string.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

struct range {
    uint64_t address, bytes;
    uint32_t first, blocks;
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 32)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 29)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 32);
}

static uint64_t sum_of(const struct range *range)
{
    uint64_t sum = 0, key = 0;
    for (uint64_t at = 0; at < range->bytes; at += 8) {
        uint64_t word = 0, left = range->bytes - at;
        const void *from = (const void *)(uintptr_t)(range->address + at);
        if (left >= 8)
            memcpy(&word, from, 8);
        else
            memcpy(&word, from, (size_t)left);
        sum += mix(word + (key += GOLDEN));
    }
    return sum;
}

void kernel_hash(const cusim_thread *thread, void *const *arguments)
{
    const struct range *ranges = arguments[0];
    uint32_t number = 0, count = *(const uint32_t *)arguments[1], block = thread->block_index[0];
    uint64_t *sums = *(uint64_t *const *)arguments[2];
    if (thread->thread_index[0])
        return;
    while (number + 1 < count && block >= ranges[number + 1].first)
        number++;
    sums[block] = block == ranges[number].first ? sum_of(&ranges[number]) : 0;
}
