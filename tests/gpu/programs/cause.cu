// Accesses out of bounds with a cause elsewhere: an index that was loaded, one that was read out of bounds itself, a number
// that wraps, a wrong stride. The first argument chooses it.
#include "kinds.h"

enum { BLOCK = 128, DIM = 64, PAGES = 32, WIDTH = 8, SEQUENCES = 4, EXPERTS = 16, EXPERT = 32768, TOKENS = 1003 };

// A cache of pages, by a table of their numbers.
__global__ void attend(const float *cache, const int *pages, float *out, int width)
{
    int page = pages[blockIdx.y * width + blockIdx.x]; // LOAD pages
    float sum = 0;
    for (int row = 0; row < 16; row++)
        sum += cache[((long)page * 16 + row) * DIM + threadIdx.x]; // FAULT pages
    out[(blockIdx.y * width + blockIdx.x) * DIM + threadIdx.x] = sum;
}

// The weights of each token's expert.
__global__ void route(const float *weights, const long *tid2eid, float *out, int dim)
{
    long expert = tid2eid[blockIdx.x];                                               // LOAD experts
    out[(long)blockIdx.x * DIM + threadIdx.x] = weights[expert * dim + threadIdx.x]; // FAULT experts
}

// The mask has one token too many: the key behind the last one is what the slack of its buffer holds.
__global__ void gather(const float *table, const int *keys, float *out, int n)
{
    int i = own_index();
    if (i <= n)
        out[i < n ? i : 0] = table[keys[i]]; // FAULT element
}

// The same, as a store at the end of the kernel.
__global__ void scatter(const int *keys, float *table, int n)
{
    int i = own_index();
    if (i < n)
        table[keys[i]] = 2.5f; // FAULT scatter
}

__global__ void mark(unsigned char *bytes, int rows, int stride)
{
    int row = own_index();
    if (row < rows)
        bytes[row * stride] = 7; // FAULT wrap
}

__global__ void mark_bytes(char *bytes, int first, int n)
{
    int i = first + own_index();
    if (i < n)
        *(float *)(bytes + i * 4) = 2.5f; // FAULT wrap_bytes
}

__global__ void matrix(float *out, int width, int height, int stride)
{
    int column = own_index(), row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < width && row < height)
        out[row * stride + column] = 1.0f; // FAULT stride
}

static void pages()
{
    std::vector<int> table(SEQUENCES * WIDTH);
    for (int i = 0; i < SEQUENCES * WIDTH; i++)
        table[i] = i % PAGES;
    table[2 * WIDTH + 5] = 70;
    float *cache = allocate<float>(PAGES * 16 * DIM);
    attend<<<dim3(WIDTH, SEQUENCES), DIM>>>(cache, copy_of(table), allocate<float>(SEQUENCES * WIDTH * DIM), WIDTH);
}

static void experts()
{
    std::vector<long> ids(TOKENS);
    for (int i = 0; i < TOKENS; i++)
        ids[i] = i % EXPERTS;
    ids[1000] = -1;
    float *weights = allocate<float>(EXPERTS * EXPERT); // 2 MiB: nothing in front of it is mapped
    route<<<TOKENS, DIM>>>(weights, copy_of(ids), allocate<float>(TOKENS * DIM), EXPERT);
}

static std::vector<int> all_keys()
{
    std::vector<int> keys(TOKENS);
    for (int i = 0; i < TOKENS; i++)
        keys[i] = i * 7 % TOKENS;
    return keys;
}

static void element()
{
    float *table = allocate<float>(TOKENS);
    gather<<<8, BLOCK>>>(table, copy_of(all_keys()), allocate<float>(TOKENS), TOKENS);
}

static void scattered()
{
    std::vector<int> keys = all_keys();
    keys[437] = TOKENS + 17;
    float *table = allocate<float>(TOKENS);
    scatter<<<8, BLOCK>>>(copy_of(keys), table, TOKENS);
}

// 3 GiB wrap at 2 GiB, 2047 rows do not.
static void wrap(int rows)
{
    const int stride = 1 << 20;
    mark<<<(rows + BLOCK - 1) / BLOCK, BLOCK>>>(allocate<unsigned char>((size_t)rows * stride), rows, stride);
}

static void wrap_bytes(int n)
{
    mark_bytes<<<8, BLOCK>>>(allocate<char>((size_t)n * 4), (1 << 29) - 64, n);
}

static void stride()
{
    float *out = allocate<float>(60 * 40);
    matrix<<<dim3(2, 8), dim3(32, 8)>>>(out, 40, 60, 64);
}

static const kind kinds[] = {
    {"pages", pages},
    {"experts", experts},
    {"element", element},
    {"scatter", scattered},
    {"wrap", [] { wrap(3072); }},
    {"wrap_fits", [] { wrap(2047); }},
    {"stride", stride},
    {"wrap_bytes", [] { wrap_bytes(3 << 28); }},
    {"wrap_bytes_fits", [] { wrap_bytes(1 << 29); }},
};

int main(int argc, char **argv)
{
    return run_kind(argc, argv, kinds, 3);
}
