// Attention over a paged cache: each request has rows of the cache, and a table of their numbers. The program tells cufence,
// where it runs under it, which rows are taken and released. The first argument says what is wrong:
//   clean   nothing: rows change hands, each written before it is read
//   stale   a request is attended to although its rows were released: what it reads there is NaN
//   early   a row is released before its last token is written: the write is found when the next request takes the row
// With these, cufence knows the tables, too (cufence_index_table()):
//   tables      nothing
//   off_by_one  a table's numbers are one too high
//   other       a request's table names a row of the other one
#include "../../../include/cufence.h"
#include "check.h"

#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <vector>

enum { ROWS = 64, TOKENS = 16, WIDTH = 64, MOST = 8, REQUESTS = 2 }; // a row: keys, then values, of TOKENS tokens
#define ROW_FLOATS (2 * TOKENS * WIDTH)

// One thread for each number of a token.
__global__ void write_token(float *cache, const int *table, int request, int token, float value)
{
    float *row = cache + (size_t)table[request * MOST + token / TOKENS] * ROW_FLOATS;
    int at = token % TOKENS * WIDTH + threadIdx.x;
    row[at] = 1.0f / (1 + token); // WRITES
    row[TOKENS * WIDTH + at] = value;
}

// One block for each request, one thread for each number of the result.
__global__ void attend(float *out, const float *query, const float *cache, const int *table, const int *lengths)
{
    int request = blockIdx.x;
    float sum = 0, weights = 0;
    for (int token = 0; token < lengths[request]; token++) {
        const float *row = cache + (size_t)table[request * MOST + token / TOKENS] * ROW_FLOATS;
        float score = 0;
        for (int i = 0; i < WIDTH; i++)
            score += query[i] * row[token % TOKENS * WIDTH + i]; // READS
        float weight = expf(score);
        weights += weight;
        sum += weight * row[TOKENS * WIDTH + token % TOKENS * WIDTH + threadIdx.x];
    }
    out[request * WIDTH + threadIdx.x] = weights > 0 ? sum / weights : 0 * weights;
}

static int is_cufence(struct dl_phdr_info *info, size_t, void *path)
{
    if (!strstr(info->dlpi_name, "/libcufence.so"))
        return 0;
    *(const char **)path = info->dlpi_name;
    return 1;
}

// A function of cufence, which is there from the first call of CUDA on; nullptr without it.
template <class Function>
static Function *of_cufence(const char *name)
{
    const char *path = nullptr;
    dl_iterate_phdr(is_cufence, &path);
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
    return library ? (Function *)dlsym(library, name) : nullptr;
}

static int (*region)(const void *, size_t, size_t, const char *);
static int (*region_take)(const void *, const char *, cudaStream_t);
static int (*region_release)(const void *, cudaStream_t);
static int (*region_release_many)(const void *const *, size_t, cudaStream_t);
static cufence_status (*index_table)(const cufence_table *);

static void find_cufence()
{
    region = of_cufence<int(const void *, size_t, size_t, const char *)>("cufence_region");
    region_take = of_cufence<int(const void *, const char *, cudaStream_t)>("cufence_region_take");
    region_release = of_cufence<int(const void *, cudaStream_t)>("cufence_region_release");
    region_release_many = of_cufence<int(const void *const *, size_t, cudaStream_t)>("cufence_region_release_many");
    index_table = of_cufence<cufence_status(const cufence_table *)>("cufence_index_table");
}

static int is_indexed, too_high; // of the table's numbers
static float *cache, *query, *out;
static int *table, *lengths;
static std::vector<int> free_rows; // the last one is the next to be used

static void take(int request, int index, const char *owner)
{
    int row = free_rows.back();
    free_rows.pop_back();
    EXPECT(!region_take || region_take(cache + (size_t)row * ROW_FLOATS, owner, nullptr) == 0);
    row += too_high;
    CALL(cudaMemcpy(table + request * MOST + index, &row, sizeof row, cudaMemcpyHostToDevice));
}

static void release(int row)
{
    EXPECT(!region_release || region_release(cache + (size_t)row * ROW_FLOATS, nullptr) == 0); // RELEASED
    free_rows.push_back(row);
}

static void release_all()
{
    const void *rows[ROWS];
    for (int row = 0; row < ROWS; row++) {
        rows[row] = cache + (size_t)row * ROW_FLOATS;
        free_rows.push_back(row);
    }
    EXPECT(!region_release_many || region_release_many(rows, ROWS, nullptr) == 0);
}

// The first `rows` numbers of the request's table are rows of its own; 0: it has none any more.
static void declare(int request, int rows, const char *owner)
{
    cufence_table what = {};
    what.start = table + request * MOST;
    what.count = (size_t)rows;
    what.width = sizeof *table;
    what.rows = cache;
    what.owner = owner;
    EXPECT(!is_indexed || !index_table || index_table(&what) == CUFENCE_OK);
}

static void begin(int request, int rows, const char *owner)
{
    int tokens = rows * TOKENS;
    for (int i = 0; i < rows; i++)
        take(request, i, owner);
    declare(request, rows, owner);
    for (int token = 0; token < tokens; token++)
        write_token<<<1, WIDTH>>>(cache, table, request, token, (float)(request + 1));
    CALL(cudaMemcpy(lengths + request, &tokens, sizeof tokens, cudaMemcpyHostToDevice));
}

static void end(int request)
{
    int rows[MOST], tokens;
    CALL(cudaMemcpy(rows, table + request * MOST, sizeof rows, cudaMemcpyDeviceToHost));
    CALL(cudaMemcpy(&tokens, lengths + request, sizeof tokens, cudaMemcpyDeviceToHost));
    declare(request, 0, nullptr);
    for (int i = 0; i < tokens / TOKENS; i++)
        release(rows[i]);
    tokens = 0;
    CALL(cudaMemcpy(lengths + request, &tokens, sizeof tokens, cudaMemcpyHostToDevice));
}

static void attend_all()
{
    float results[REQUESTS * WIDTH];
    attend<<<REQUESTS, WIDTH>>>(out, query, cache, table, lengths); // ATTENDED
    CALL(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
    printf("%g %g\n", results[0], results[WIDTH]);
}

int main(int, char **argv)
{
    const char *bug = argv[1];
    int none[REQUESTS * MOST], tokens = 2 * TOKENS;
    std::vector<float> ones(WIDTH, 1.0f);
    for (int &row : none)
        row = -1;
    is_indexed = !strcmp(bug, "tables") || !strcmp(bug, "off_by_one") || !strcmp(bug, "other");
    // One more than there are rows: a number that is wrong by one stays inside the buffer.
    CALL(cudaMalloc(&cache, (size_t)(ROWS + 1) * ROW_FLOATS * sizeof *cache));
    CALL(cudaMalloc(&query, WIDTH * sizeof *query));
    CALL(cudaMalloc(&out, REQUESTS * WIDTH * sizeof *out));
    CALL(cudaMalloc(&table, sizeof none));
    CALL(cudaMalloc(&lengths, REQUESTS * sizeof *lengths));
    CALL(cudaMemset(lengths, 0, REQUESTS * sizeof *lengths));
    CALL(cudaMemset(cache, 0, (size_t)ROWS * ROW_FLOATS * sizeof *cache));
    CALL(cudaMemcpy(table, none, sizeof none, cudaMemcpyHostToDevice));
    CALL(cudaMemcpy(query, ones.data(), WIDTH * sizeof *query, cudaMemcpyHostToDevice));
    find_cufence();
    EXPECT(!region || region(cache, ROW_FLOATS * sizeof *cache, ROWS, "kv") == 0);
    release_all();

    too_high = !strcmp(bug, "off_by_one");
    begin(0, 2, "request 1");
    too_high = 0;
    begin(1, 3, "request 2");
    if (!strcmp(bug, "other"))
        CALL(cudaMemcpy(table + 1, table + MOST, sizeof *table, cudaMemcpyDeviceToDevice));
    attend_all();
    if (is_indexed && strcmp(bug, "tables"))
        return puts("done") < 0;
    end(0);
    if (!strcmp(bug, "stale"))
        CALL(cudaMemcpy(lengths, &tokens, sizeof tokens, cudaMemcpyHostToDevice));
    if (!strcmp(bug, "early"))
        write_token<<<1, WIDTH>>>(cache, table, 0, 2 * TOKENS - 1, 7.0f); // LATE
    attend_all();
    if (strcmp(bug, "stale"))
        begin(0, 3, "request 3");
    attend_all();
    CALL(cudaDeviceSynchronize());
    puts("done");
    return 0;
}
