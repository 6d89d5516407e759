#include "hash.h"

#include "hash.ptx.h"
#include "kernels.h"

#include <string.h>

enum { THREADS = 256, MOST_BLOCKS = 1056 }; /* 1056: eight for each multiprocessor of an H100 */
#define BYTES_A_BLOCK ((uint64_t)THREADS * 16 * 4)

/* As the kernel takes it. */
struct ranges {
    struct hash_range at[HASH_RANGES];
};

int hash_load(CUfunction *function)
{
    static const char *const names[] = {HASH_KERNEL};
    return kernels_load(hash_ptx, names, function, 1);
}

static unsigned blocks_for(const struct hash_range *ranges, size_t count)
{
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = ranges[i].bytes > most ? ranges[i].bytes : most;
    uint64_t blocks = most / BYTES_A_BLOCK + 1;
    return blocks < MOST_BLOCKS ? (unsigned)blocks : MOST_BLOCKS;
}

CUresult hash_launch(CUfunction function, CUstream stream, const struct hash_range *ranges, size_t count, CUdeviceptr scratch,
                     CUdeviceptr results)
{
    struct ranges given;
    void *arguments[] = {&given, &scratch, &results};
    memset(&given, 0, sizeof given);
    memcpy(given.at, ranges, count * sizeof *ranges);
    return driver->cuLaunchKernel(function, blocks_for(ranges, count), (unsigned)count, 1, THREADS, 1, 1, 0, stream, arguments,
                                  NULL);
}
