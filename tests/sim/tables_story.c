/* A program with a paged cache, for test_tables.c: STORY... plays the stories in order. */
#include "told_program.h"

#define ROWS 8
#define ROW 256    /* bytes */
#define ENTRIES 16 /* of the table */

/* ---- kernels ---- */

/* out[i] = the first float of the row that table[i] names; of -1, nothing. */
static void attend(const cusim_thread *t, void *const *arguments)
{
    const float *kv = *(const float *const *)arguments[0];
    const int32_t *table = *(const int32_t *const *)arguments[1];
    float *out = *(float *const *)arguments[2];
    unsigned i = t->thread_index[0];
    if (i < ENTRIES && table[i] != -1)
        out[i] = kv[(int64_t)table[i] * (ROW / 4)];
}

/* Reads neither of what it is given. */
static void idle(const cusim_thread *t, void *const *arguments)
{
    (void)t;
    (void)arguments;
}

static const size_t three_pointers[] = {8, 8, 8}, one_pointer[] = {8};
static const cusim_kernel kernels[] = {
    {.name = "_Z6attendPKfPKiPf", .function = attend, .argument_bytes = three_pointers, .argument_count = 3},
    {.name = "idle", .function = idle, .argument_bytes = three_pointers, .argument_count = 3},
    {.name = "idle_one", .function = idle, .argument_bytes = one_pointer, .argument_count = 1}};

/* ---- the driver, and cufence ---- */

static CUdeviceptr kv, table, out;
static const int64_t none[] = {-1};

static void *cufence_has(const char *name)
{
    static void *cufence;
    if (!cufence && !(cufence = dlopen("libcufence.so.0", RTLD_NOLOAD | RTLD_NOW))) {
        printf("cufence is not there\n");
        exit(3);
    }
    return dlsym(cufence, name);
}
#define CUFENCE(function, ...) accept(((__typeof__(&(function)))cufence_has(#function))(__VA_ARGS__), #function)

static void accept(cufence_status status, const char *call)
{
    if (status != CUFENCE_OK)
        printf("%s: %s\n", call, ((__typeof__(&cufence_error_detail))cufence_has("cufence_error_detail"))());
}

static void *at(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static CUdeviceptr allocate(size_t bytes)
{
    CUdeviceptr made;
    CALL(cuMemAlloc_v2, &made, bytes);
    CALL(cuMemsetD8_v2, made, 0, bytes);
    return made;
}

static CUresult launch_on(CUstream stream, const char *name, CUdeviceptr first, CUdeviceptr second)
{
    CUfunction function;
    CALL(cuModuleGetFunction, &function, module, name);
    return ((__typeof__(&cuLaunchKernel))dlsym(library, "cuLaunchKernel"))(function, 1, 1, 1, 32, 1, 1, 0, stream,
                                                                           (void *[]){&first, &second, &out}, NULL);
}

static void launch(const char *name)
{
    check(launch_on(NULL, name, kv, table), name);
}

/* 0, 1, 2, ... again and again, and `value` at `element`; then -1. */
static void fill(int element, int32_t value)
{
    int32_t rows[ENTRIES];
    for (int i = 0; i < ENTRIES; i++)
        rows[i] = i == element ? value : i < 12 ? i % ROWS : -1;
    CALL(cuMemcpyHtoD_v2, table, rows, sizeof rows);
}

static void declare(void)
{
    CUFENCE(cufence_region, at(kv), ROW, ROWS, "kv");
    CUFENCE(cufence_index, at(table), ENTRIES, 4, at(kv), none, 1);
}

static void begin(int element, int32_t value)
{
    fill(element, value);
    declare();
}

/* ---- stories ---- */

STORY(right)
{
    begin(-1, 0);
    for (int i = 0; i < 20; i++)
        launch("_Z6attendPKfPKiPf");
}

STORY(off_by_one)
{
    begin(5, ROWS);
    launch("_Z6attendPKfPKiPf");
}

STORY(negative)
{
    begin(3, -2);
    launch("_Z6attendPKfPKiPf");
}

STORY(far)
{
    begin(3, 1 << 30);
    launch("_Z6attendPKfPKiPf");
}

STORY(stale)
{
    begin(-1, 0);
    CUFENCE(cufence_region_take, at(kv + 2 * ROW), "request 4", NULL);
    launch("idle");
    CUFENCE(cufence_region_release, at(kv + 2 * ROW), NULL);
    launch("idle");
}

STORY(taken_since)
{
    uint32_t flag = 0, *flag_at = &flag;
    CUfunction spin;
    begin(-1, 0);
    launch("idle"); /* the first one loads kernels and takes memory, which may wait for the device */
    CUFENCE(cufence_region_release, at(kv + 2 * ROW), NULL);
    CALL(cuModuleGetFunction, &spin, module, "cusim_spin");
    CALL(cuLaunchKernel, spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&flag_at}, NULL);
    launch("idle");
    CUFENCE(cufence_region_take, at(kv + 2 * ROW), "request 9", NULL);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CALL(cuCtxSynchronize); /* the kernel reads the flag */
}

STORY(all_free)
{
    begin(-1, 0);
    for (CUdeviceptr row = 0; row < ROWS; row++)
        CUFENCE(cufence_region_release, at(kv + row * ROW), NULL);
    launch("idle");
}

static cufence_table owned(const char *owner)
{
    return (cufence_table){
        .start = at(table), .count = 4, .width = 4, .rows = at(kv), .allow = none, .allowed = 1, .owner = owner};
}

/* A table of four rows from `first` on, one of which is given to another owner after a launch. */
static void changes_its_owner(CUdeviceptr first, const char *owner)
{
    cufence_table mine = owned(owner);
    mine.rows = at(kv + first * ROW);
    begin(-1, 0);
    for (CUdeviceptr row = first; row < first + 4; row++)
        CUFENCE(cufence_region_take, at(kv + row * ROW), owner, NULL);
    CUFENCE(cufence_index_table, &mine);
    launch("idle");
    CUFENCE(cufence_region_take, at(kv + (first + 2) * ROW), "request 9", NULL);
    launch("idle");
}

STORY(owner)
{
    changes_its_owner(0, "request 7");
}

/* The first row that the table may name is not the first of the division. */
STORY(owner_behind)
{
    changes_its_owner(4, "request 8");
}

STORY(wide)
{
    int64_t rows[ENTRIES] = {0, 1, 2, 3, 4, INT64_C(5) << 32, -1};
    CUdeviceptr wide = allocate(sizeof rows);
    declare();
    CALL(cuMemcpyHtoD_v2, wide, rows, sizeof rows);
    CUFENCE(cufence_index, at(wide), ENTRIES, 8, at(kv), none, 1);
    check(launch_on(NULL, "idle", kv, wide), "idle");
}

/* Three runs of two elements, four elements apart, behind two others. */
STORY(runs)
{
    int32_t rows[ENTRIES] = {99, 99, 0, 1, 99, 99, 2, 3, 99, 99, 4, 99, 99};
    cufence_table runs = {.start = at(table + 8), .count = 2, .runs = 3, .pitch = 16, .width = 4, .rows = at(kv)};
    CUFENCE(cufence_region, at(kv), ROW, ROWS, "kv");
    CALL(cuMemcpyHtoD_v2, table, rows, sizeof rows);
    CUFENCE(cufence_index_table, &runs);
    launch("idle");
    rows[11] = 5;
    CALL(cuMemcpyHtoD_v2, table, rows, sizeof rows);
    launch("idle");
}

STORY(removed)
{
    begin(5, ROWS);
    CUFENCE(cufence_index, at(table), 0, 4, at(kv), NULL, 0);
    launch("idle");
    CUFENCE(cufence_index, at(table), 5, 4, at(kv), none, 1);
    launch("idle");
}

STORY(freed_table)
{
    begin(5, ROWS);
    CALL(cuMemFree_v2, table);
    table = allocate(ENTRIES * 4);
    fill(5, ROWS);
    launch("idle");
}

STORY(freed_rows)
{
    begin(5, ROWS);
    CALL(cuMemFree_v2, kv);
    kv = allocate(ROWS * ROW + ROW);
    launch("idle");
    CUFENCE(cufence_region, at(kv), ROW, ROWS, "kv");
    launch("idle");
}

STORY(gone_rows)
{
    begin(5, ROWS);
    CUFENCE(cufence_region_gone, at(kv));
    launch("idle");
}

STORY(one_of_both)
{
    CUfunction function;
    begin(5, ROWS);
    CALL(cuModuleGetFunction, &function, module, "idle_one");
    CALL(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&table}, NULL);
    CALL(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&kv}, NULL);
    check(launch_on(NULL, "idle", kv, out), "idle");
}

STORY(again)
{
    begin(5, ROWS);
    for (int i = 0; i < 20; i++)
        launch("idle");
}

STORY(graph)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec executable;
    begin(-1, 0);
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CALL(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    check(launch_on(stream, "_Z6attendPKfPKiPf", kv, table), "attend");
    check(launch_on(stream, "idle", kv, out), "idle");
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuGraphInstantiateWithFlags, &executable, graph, 0);
    CALL(cuGraphLaunch, executable, stream);
    CALL(cuStreamSynchronize, stream);
    printf("first launch\n");
    fflush(stdout);
    fill(5, ROWS);
    CALL(cuGraphLaunch, executable, stream);
    CALL(cuStreamSynchronize, stream);
}

/* On one stream the table is still right when the launch's turn comes, on the other it is wrong by then. */
STORY(streams)
{
    CUstream streams[2];
    CUdeviceptr first = table;
    for (int i = 0; i < 2; i++)
        CALL(cuStreamCreate, &streams[i], CU_STREAM_NON_BLOCKING);
    begin(-1, 0);
    CALL(cuMemsetD32Async, table, 77, 2, streams[1]);
    check(launch_on(streams[1], "idle", kv, table), "idle");
    CALL(cuStreamSynchronize, streams[1]);
    table = allocate(ENTRIES * 4);
    begin(-1, 0);
    check(launch_on(streams[0], "idle", kv, table), "idle");
    CALL(cuStreamSynchronize, streams[0]);
    CALL(cuMemFree_v2, first);
}

static void stop_at(int element, int32_t value)
{
    float before = 5;
    cufence_table stops = {
        .start = at(table), .count = ENTRIES, .width = 4, .rows = at(kv), .allow = none, .allowed = 1, .stops = 1};
    begin(element, value);
    allocate_when_told();
    CUFENCE(cufence_index_table, &stops);
    CALL(cuMemcpyHtoD_v2, out, &before, sizeof before);
    printf("launch: error %d\n", (int)launch_on(NULL, "_Z6attendPKfPKiPf", kv, table));
    CUresult result = ((__typeof__(&cuCtxSynchronize))dlsym(library, "cuCtxSynchronize"))();
    float after = *(const volatile float *)at(out); /* the simulated device's memory is the host's */
    printf("synchronise: error %d, out is %g\n", (int)result, (double)after);
    if (result != CUDA_SUCCESS)
        exit(0);
}

STORY(stop)
{
    stop_at(5, ROWS);
}

STORY(stop_right)
{
    stop_at(-1, 0);
}

STORY(refused)
{
    cufence_table other = owned("a name that is longer than forty-seven bytes can hold"), odd = owned(NULL);
    CUFENCE(cufence_index, at(table), ENTRIES, 4, at(kv), none, 1);
    CUFENCE(cufence_region, at(kv), ROW, ROWS, "kv");
    CUFENCE(cufence_index, at(table), ENTRIES, 2, at(kv), none, 1);
    CUFENCE(cufence_index, at(table + 2), 1, 4, at(kv), none, 1);
    CUFENCE(cufence_index, at(table), ENTRIES + 1, 4, at(kv), none, 1);
    CUFENCE(cufence_index, at(table), ENTRIES, 4, at(kv + 4), none, 1);
    CUFENCE(cufence_index, at(table), ENTRIES, 4, at(kv), none, 5);
    CUFENCE(cufence_index, &odd, 1, 4, at(kv), none, 1);
    CUFENCE(cufence_index_table, &other);
    CUFENCE(cufence_index_table, NULL);
    odd.runs = SIZE_MAX;
    odd.pitch = SIZE_MAX / 4 * 4;
    CUFENCE(cufence_index_table, &odd);
    odd.count = SIZE_MAX;
    odd.runs = 1;
    CUFENCE(cufence_index_table, &odd);
}

int main(int argc, char **argv)
{
    if (!open_driver())
        return 2;
    register_kernels(kernels, sizeof kernels / sizeof *kernels);
    open_device();
    kv = allocate(ROWS * ROW + ROW); /* the last row is no row: an index that is wrong by one stays inside */
    table = allocate(ENTRIES * 4);
    out = allocate(ENTRIES * 4);
    tell_all(argc, argv);
    return 0;
}
