// Sums for the hash of byte ranges: see hash.h for its definition. A few blocks a range, many ranges a launch.
typedef unsigned long long u64;

#define RANGES 32
#define GOLDEN 0x9e3779b97f4a7c15ull

struct range {
    u64 address, bytes;
    unsigned first, blocks;
};
struct ranges {
    range at[RANGES];
};

static __device__ __forceinline__ u64 mix(u64 x)
{
    x = (x ^ (x >> 32)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 29)) * 0x94d049bb133111ebull;
    return x ^ (x >> 32);
}

static __device__ __forceinline__ u64 keyed(u64 word, u64 position)
{
    return mix(word + (position + 1) * GOLDEN);
}

// With each byte that equals the one that `same` is made of as 0. x: a byte is 0 where it is equal; none: bit 7 of those that
// are not.
static __device__ __forceinline__ u64 folded(u64 word, u64 same)
{
    const u64 low = 0x7f7f7f7f7f7f7f7full;
    u64 x = word ^ same, none = (((x & low) + low) | x) & ~low;
    return word & (none | (none - (none >> 7)));
}

// The words of a range that begins at a multiple of 16, two at a time.
static __device__ u64 sum_of_pairs(const ulonglong2 *pairs, u64 count, u64 thread, u64 threads)
{
    u64 sum = 0, i = thread;
    for (; i + 3 * threads < count; i += 4 * threads) {
        ulonglong2 a = pairs[i], b = pairs[i + threads], c = pairs[i + 2 * threads], d = pairs[i + 3 * threads];
        sum += keyed(a.x, 2 * i) + keyed(a.y, 2 * i + 1);
        sum += keyed(b.x, 2 * (i + threads)) + keyed(b.y, 2 * (i + threads) + 1);
        sum += keyed(c.x, 2 * (i + 2 * threads)) + keyed(c.y, 2 * (i + 2 * threads) + 1);
        sum += keyed(d.x, 2 * (i + 3 * threads)) + keyed(d.y, 2 * (i + 3 * threads) + 1);
    }
    for (; i < count; i += threads) {
        ulonglong2 a = pairs[i];
        sum += keyed(a.x, 2 * i) + keyed(a.y, 2 * i + 1);
    }
    return sum;
}

// The same for folded ones. In a loop of its own: most hashes do without, and are to cost no more for it.
static __device__ u64 sum_of_folded(const ulonglong2 *pairs, u64 count, u64 thread, u64 threads, u64 same)
{
    u64 sum = 0;
    for (u64 i = thread; i < count; i += threads) {
        ulonglong2 a = pairs[i];
        sum += keyed(folded(a.x, same), 2 * i) + keyed(folded(a.y, same), 2 * i + 1);
    }
    return sum;
}

// The words of a range that begins anywhere. Reads only aligned words that hold a byte of the range: they are mapped with it.
static __device__ u64 sum_of_words(u64 address, u64 bytes, u64 first, u64 thread, u64 threads, u64 same)
{
    const u64 *aligned = (const u64 *)(address & ~7ull);
    unsigned shift = (unsigned)(address & 7) * 8;
    u64 sum = 0;
    for (u64 i = first + thread; i * 8 < bytes; i += threads) {
        u64 left = bytes - i * 8;
        u64 word = aligned[i] >> shift;
        if (shift && left > 8 - (address & 7))
            word |= aligned[i + 1] << (64 - shift);
        if (left < 8)
            word &= (1ull << (left * 8)) - 1;
        sum += keyed(folded(word, same), i);
    }
    return sum;
}

static __device__ u64 sum_of(range r, u64 same)
{
    u64 thread = (u64)(blockIdx.x - r.first) * blockDim.x + threadIdx.x, threads = (u64)r.blocks * blockDim.x;
    if (r.address % 16)
        return sum_of_words(r.address, r.bytes, 0, thread, threads, same);
    u64 count = r.bytes / 16;
    const ulonglong2 *pairs = (const ulonglong2 *)r.address;
    return (same ? sum_of_folded(pairs, count, thread, threads, same) : sum_of_pairs(pairs, count, thread, threads)) +
           sum_of_words(r.address, r.bytes, 2 * count, thread, threads, same);
}

// blockDim is a multiple of 32, at most 1024. same: 8 bytes that are equal; 0: nothing is folded. Block i writes sums[i]: its
// part of the sum of the range that it belongs to.
extern "C" __global__ void cufence_hash(ranges given, unsigned count, u64 *sums, u64 same)
{
    __shared__ u64 parts[32];
    unsigned number = 0;
    while (number + 1 < count && blockIdx.x >= given.at[number + 1].first)
        number++;
    u64 sum = sum_of(given.at[number], same);
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x)
        return;
    for (unsigned i = 1; i < blockDim.x / 32; i++)
        sum += parts[i];
    sums[blockIdx.x] = sum;
}
