// Looks for elements of tables that name no row: see tables.h.
#include "tables.h"

typedef unsigned long long u64;
typedef long long i64;

static __device__ i64 element_of(const tables_item &item, u64 index)
{
    u64 at = item.start + index / item.run * item.pitch + index % item.run * item.width;
    return item.width == 4 ? (i64) * (const volatile int *)at : *(const volatile i64 *)at;
}

static __device__ bool is_allowed(const tables_item &item, i64 value)
{
    for (unsigned i = 0; i < item.allowed; i++) {
        if (item.allow[i] == value)
            return true;
    }
    return false;
}

// Returns 0 if the element is right.
static __device__ u64 wrong(const tables_item &item, i64 value)
{
    if (is_allowed(item, value))
        return 0;
    if ((u64)value >= item.rows)
        return TABLES_OUTSIDE;
    if (item.states && *(const volatile unsigned char *)(item.states + (u64)value))
        return TABLES_FREE;
    if (item.owned && !*(const volatile unsigned char *)(item.owned + (u64)value))
        return TABLES_OTHER;
    return 0;
}

extern "C" __global__ void cufence_tables(const tables_items items)
{
    unsigned number = 0;
    while (number + 1 < items.count && blockIdx.x >= items.items[number + 1].first_block)
        number++;
    const tables_item &item = items.items[number];
    u64 threads = (u64)item.blocks * blockDim.x;
    for (u64 i = (u64)(blockIdx.x - item.first_block) * blockDim.x + threadIdx.x; i < item.count; i += threads) {
        i64 value = element_of(item, i);
        u64 why = wrong(item, value);
        if (!why)
            continue;
        tables_out *out = (tables_out *)item.out;
        unsigned at = atomicAdd(&out->count, 1u);
        if (at < TABLES_FOUND) {
            out->found[at].element = i;
            out->found[at].value = value;
            out->found[at].why = why;
        }
    }
}
