// Finds the buffers whose addresses are in other buffers, and copies them: see reach.h.
typedef unsigned long long u64;

#define NONE (~0ull)

struct buffer {
    u64 start, end, address, size, at;
    unsigned is_found, unused;
};
struct queue {
    unsigned count, unused;
    unsigned at[1];
};
struct reach {
    buffer *table;
    queue *found;
    unsigned char *out;
    u64 room, each, most;
    unsigned count, first, is_again, unused;
};

// Returns the index of the buffer whose mapping has the address, `count` if there is none.
static __device__ unsigned find(const reach &r, u64 address)
{
    unsigned low = 0, high = r.count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (r.table[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r.count && r.table[low].start <= address ? low : r.count;
}

static __device__ void look(const reach &r, u64 word, unsigned *tail)
{
    unsigned index = find(r, word);
    if (index == r.count || *(volatile unsigned *)&r.table[index].is_found || atomicExch(&r.table[index].is_found, 1u))
        return;
    r.found->at[atomicAdd(tail, 1u)] = index;
}

// Returns the number of bytes that were looked at: the last ones.
static __device__ u64 search(const reach &r, const buffer &b, u64 left, u64 low, u64 high, unsigned *tail)
{
    u64 start = (b.address + 7) / 8 * 8, end = (b.address + b.size) / 8 * 8, most = (r.each < left ? r.each : left) / 8 * 8;
    u64 bytes = start < end ? end - start : 0;
    bytes = bytes < most ? bytes : most;
    const u64 *words = (const u64 *)(end - bytes);
    for (u64 i = threadIdx.x; i < bytes / 8; i += blockDim.x) {
        u64 word = words[i];
        if (word >= low && word < high)
            look(r, word, tail);
    }
    return bytes;
}

// Gives each buffer that was found its place, as long as there is room.
static __device__ void place(const reach &r, unsigned tail)
{
    u64 used = 0;
    for (unsigned i = r.first; i < tail; i++) {
        buffer &b = r.table[r.found->at[i]];
        u64 bytes = (b.size + 15) / 16 * 16;
        b.at = bytes <= r.room - used ? used : NONE;
        used += b.at == NONE ? 0 : bytes;
    }
    r.found->count = tail;
}

static __device__ void copy(unsigned char *to, const unsigned char *from, u64 bytes)
{
    u64 wide = ((u64)from | (u64)to) % 16 ? 0 : bytes / 16;
    for (u64 i = threadIdx.x; i < wide; i += blockDim.x)
        ((ulonglong2 *)to)[i] = ((const ulonglong2 *)from)[i];
    for (u64 i = wide * 16 + threadIdx.x; i < bytes; i += blockDim.x)
        to[i] = from[i];
}

extern "C" __global__ void cufence_reach(reach r)
{
    __shared__ unsigned tail;
    if (threadIdx.x == 0)
        tail = r.is_again ? r.found->count : r.first;
    __syncthreads();
    u64 searched = 0, low = r.count ? r.table[0].start : 0, high = r.count ? r.table[r.count - 1].end : 0;
    for (unsigned head = 0; !r.is_again && head < tail && searched < r.most; head++) {
        searched += search(r, r.table[r.found->at[head]], r.most - searched, low, high, &tail);
        __threadfence_block();
        __syncthreads(); // all have seen the tail that ends or goes on with the loop
        unsigned end = tail;
        __syncthreads();
        if (head + 1 >= end)
            break;
    }
    __syncthreads();
    if (threadIdx.x == 0 && !r.is_again)
        place(r, tail);
    __threadfence();
    __syncthreads();
    for (unsigned i = r.first; i < tail; i++) {
        const buffer &b = r.table[r.found->at[i]];
        if (b.at != NONE)
            copy(r.out + b.at, (const unsigned char *)b.address, b.size);
    }
}
