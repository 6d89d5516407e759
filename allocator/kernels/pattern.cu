/*
 * Checks and writes the pattern in the slack of many buffers: one block of threads for each job. The structs are those of
 * pattern.h; allocator/sim/own.cpp runs it on the host.
 */
typedef unsigned char byte;
typedef unsigned int word;
typedef unsigned long long wide;

#define CHECK 1u
#define RENEW 2u
#define WRITE 4u
#define NANS 8u
#define GOOD 1u
#define BAD 2u
#define FOUND 64

struct range {
    wide start, end;
};

struct found {
    wide first, last;
    word count, unused;
    byte bytes[FOUND];
};

struct job {
    range check[2], write[2];
    word does, unused;
    struct found found[2];
};
static_assert(sizeof(job) == 248, "as in pattern.h");

/* The pattern of the eight bytes at an address that is a multiple of eight: NaNs, or no byte is 0, 1, 0xff or ASCII. */
static __device__ wide pattern_of(wide address, word does)
{
    if (does & NANS)
        return 0x7fff7fff7fff7fffull;
    wide mixed = address * 0x9e3779b97f4a7c15ull;
    return ((mixed ^ mixed >> 29) & 0x3f3f3f3f3f3f3f3full) + 0xa1a1a1a1a1a1a1a1ull;
}

static __device__ byte byte_of(wide pattern, wide address)
{
    return (byte)(pattern >> 8 * (address & 7));
}

/* Notes the changed bytes among eight. All offsets are from the range's start. */
static __device__ void compare(range in, word does, wide at, word *first, word *last, word *count)
{
    wide pattern = pattern_of(at, does);
    if (at >= in.start && at + 8 <= in.end && *(const volatile wide *)at == pattern)
        return;
    for (wide one = at < in.start ? in.start : at; one < at + 8 && one < in.end; one++) {
        if (*(const volatile byte *)one == byte_of(pattern, one))
            continue;
        atomicMin(first, (word)(one - in.start));
        atomicMax(last, (word)(one - in.start));
        atomicAdd(count, 1u);
    }
}

static __device__ void put(range in, word does, wide at)
{
    wide pattern = pattern_of(at, does);
    if (at >= in.start && at + 8 <= in.end) {
        *(volatile wide *)at = pattern;
        return;
    }
    for (wide one = at < in.start ? in.start : at; one < at + 8 && one < in.end; one++)
        *(volatile byte *)one = byte_of(pattern, one);
}

static __device__ void put_all(range in, word does)
{
    for (wide at = (in.start & ~7ull) + 8 * threadIdx.x; at < in.end; at += 8 * blockDim.x)
        put(in, does, at);
}

/* All threads of the block return the same: whether bytes have changed. */
static __device__ bool check(range in, word does, found *out, word *first, word *last, word *count)
{
    if (threadIdx.x == 0) {
        *first = ~0u;
        *last = *count = 0;
    }
    __syncthreads();
    for (wide at = (in.start & ~7ull) + 8 * threadIdx.x; at < in.end; at += 8 * blockDim.x)
        compare(in, does, at, first, last, count);
    __syncthreads();
    bool is_bad = *count != 0;
    if (is_bad && threadIdx.x == 0) {
        out->first = in.start + *first;
        out->last = in.start + *last;
        out->count = *count;
    }
    if (is_bad && threadIdx.x < FOUND && in.start + *first + threadIdx.x < in.end)
        out->bytes[threadIdx.x] = *(const volatile byte *)(in.start + *first + threadIdx.x);
    __syncthreads();
    return is_bad;
}

extern "C" __global__ void cufence_pattern(job *jobs, volatile word *states)
{
    __shared__ range ranges[4];
    __shared__ word does, first, last, count;
    job *own = &jobs[blockIdx.x];
    bool is_bad = false;
    if (threadIdx.x < 2)
        ranges[threadIdx.x] = own->check[threadIdx.x];
    else if (threadIdx.x < 4)
        ranges[threadIdx.x] = own->write[threadIdx.x - 2];
    else if (threadIdx.x == 4)
        does = own->does;
    __syncthreads();
    for (int side = 0; side < 2 && (does & CHECK); side++) {
        if (check(ranges[side], does, &own->found[side], &first, &last, &count)) {
            is_bad = true;
            if (does & RENEW)
                put_all(ranges[side], does);
        }
    }
    __syncthreads();
    for (int side = 2; side < 4 && (does & WRITE); side++)
        put_all(ranges[side], does);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0)
        states[blockIdx.x] = is_bad ? BAD : GOOD;
}

extern "C" __global__ void cufence_pattern_fill(wide start, wide bytes)
{
    for (wide at = 8 * (wide)(blockIdx.x * blockDim.x + threadIdx.x); at < bytes; at += 8 * (wide)(gridDim.x * blockDim.x))
        *(volatile wide *)(start + at) = pattern_of(start + at, 0);
}
