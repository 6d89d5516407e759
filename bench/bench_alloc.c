/*
 * Measures allocating and freeing: cufence against the driver's own two allocators, in one process, in alternating batches.
 *
 *   pair     allocate and free at once, one thread; the memory is warm
 *   window   allocate 32, then free 32, one thread
 *   threads  pairs on 1 to 64 threads, each with a stream of its own, then all on one stream
 *   live     free one of N live buffers and allocate another, for N = 1,000 and for 24,000 (the target), or as many as fit
 *   cold     an allocation that has to get memory from the driver
 *
 * With --alone cufence is not compared. Results are nanoseconds, medians over batches. Runs on the driver that CUFENCE_DRIVER
 * names. On the simulated device, the results of the driver's allocators mean nothing. cufence reads its options from
 * CUFENCE_OPTIONS.
 */
#include "bench_driver.h"

#include <inttypes.h>
#include <pthread.h>
#include <time.h>

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define PAGE (2 * MIB) /* size of a small cufence buffer */

enum { MAX_BATCHES = 101, MAX_THREADS = 64, WINDOW = 32, MAX_LIVE = 24000, FEW_LIVE = 1000 };

static CUmemoryPool pool; /* the device's default pool; NULL if there is none */

/* ---- the allocators ---- */

static int fence_allocate(void **pointer, size_t size, CUstream stream)
{
    return cufence_malloc(pointer, size, 0, stream) == CUFENCE_OK;
}

static void fence_free(void *pointer, CUstream stream)
{
    cufence_free(pointer, stream);
}

static void fence_drop(void)
{
    cufence_trim(0);
}

static int fence_present(void)
{
    return 1;
}

static int plain_allocate(void **pointer, size_t size, CUstream stream)
{
    CUdeviceptr address = 0;
    (void)stream;
    if (cuda.cuMemAlloc(&address, size) != CUDA_SUCCESS)
        return 0;
    *pointer = (void *)(uintptr_t)address;
    return 1;
}

static void plain_free(void *pointer, CUstream stream)
{
    (void)stream;
    cuda.cuMemFree((CUdeviceptr)(uintptr_t)pointer);
}

static void plain_drop(void)
{
}

static int plain_present(void)
{
    return cuda.cuMemAlloc && cuda.cuMemFree;
}

static int async_allocate(void **pointer, size_t size, CUstream stream)
{
    CUdeviceptr address = 0;
    if (cuda.cuMemAllocAsync(&address, size, stream) != CUDA_SUCCESS)
        return 0;
    *pointer = (void *)(uintptr_t)address;
    return 1;
}

static void async_free(void *pointer, CUstream stream)
{
    cuda.cuMemFreeAsync((CUdeviceptr)(uintptr_t)pointer, stream);
}

static void async_drop(void)
{
    cuda.cuMemPoolTrimTo(pool, 0);
}

static int async_present(void)
{
    return cuda.cuMemAllocAsync && cuda.cuMemFreeAsync && pool;
}

static const struct allocator {
    const char *name;
    int (*allocate)(void **pointer, size_t size, CUstream stream);
    void (*free)(void *pointer, CUstream stream);
    void (*drop)(void); /* releases kept memory to the driver; the device is idle */
    int (*present)(void);
} allocators[] = {
    {"cufence", fence_allocate, fence_free, fence_drop, fence_present},
    {"cuMemAlloc", plain_allocate, plain_free, plain_drop, plain_present},
    {"cuMemAllocAsync", async_allocate, async_free, async_drop, async_present},
};
enum { ALLOCATORS = sizeof allocators / sizeof *allocators };

static int is_alone; /* --alone: cufence is not compared */

static int is_measured(const struct allocator *allocator)
{
    return allocator->present() && (!is_alone || allocator == &allocators[0]);
}

/* ---- results ---- */

struct result {
    const char *group;
    const char *allocator;
    uint64_t size;
    unsigned threads;
    const char *streams; /* "one" or "own" */
    uint64_t live;
    size_t samples;
    double median, low, high; /* ns; the 10th and the 90th percentile */
};

static FILE *json;
static int json_rows;
static int quick;
static const char *only; /* the group to measure, NULL: all */

static int is_wanted(const char *group)
{
    return !only || strcmp(only, group) == 0;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double emit(struct result result, double *samples, size_t count)
{
    if (!count) {
        printf("%-8s %-16s %9" PRIu64 " KiB: not measured (not there, or out of memory)\n", result.group, result.allocator,
               result.size / KIB);
        return 0;
    }
    qsort(samples, count, sizeof *samples, compare);
    result.samples = count;
    result.median = samples[count / 2];
    result.low = samples[count / 10];
    result.high = samples[count - 1 - count / 10];
    printf("%-8s %-16s %9" PRIu64 " KiB %3u thr %s %6" PRIu64 " live %12.0f ns   (%.0f .. %.0f, %zu samples)\n", result.group,
           result.allocator, result.size / KIB, result.threads, result.streams, result.live, result.median, result.low,
           result.high, result.samples);
    fflush(stdout);
    if (json)
        fprintf(json,
                "%s\n  {\"group\": \"%s\", \"allocator\": \"%s\", \"size\": %" PRIu64 ", \"threads\": %u, \"streams\": \"%s\", "
                "\"live\": %" PRIu64 ", \"samples\": %zu, \"median_ns\": %.1f, \"p10_ns\": %.1f, \"p90_ns\": %.1f}",
                json_rows++ ? "," : "", result.group, result.allocator, result.size, result.threads, result.streams,
                result.live, result.samples, result.median, result.low, result.high);
    return result.median;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void synchronize(void)
{
    must(cuda.cuCtxSynchronize(), "cuCtxSynchronize");
}

/* ---- one thread ---- */

/* `repeats` times: allocates `window` buffers and frees them. Returns ns per pair, negative if out of memory. */
static double time_batch(const struct allocator *allocator, uint64_t size, CUstream stream, unsigned window, uint64_t repeats)
{
    void *pointers[WINDOW];
    uint64_t start = now();
    for (uint64_t i = 0; i < repeats; i++) {
        for (unsigned w = 0; w < window; w++) {
            if (!allocator->allocate(&pointers[w], size, stream)) {
                while (w > 0)
                    allocator->free(pointers[--w], stream);
                return -1;
            }
        }
        for (unsigned w = 0; w < window; w++)
            allocator->free(pointers[w], stream);
    }
    return (double)(now() - start) / (double)(repeats * window);
}

static void bench_pairs(const char *group, uint64_t size, unsigned window, CUstream stream)
{
    static double samples[ALLOCATORS][MAX_BATCHES];
    size_t batches = quick ? 11 : MAX_BATCHES, counts[ALLOCATORS] = {0};
    uint64_t repeats[ALLOCATORS] = {0};
    const double batch_ns = quick ? 0.5e6 : 2e6;
    for (int a = 0; a < ALLOCATORS; a++) {
        double pair = is_measured(&allocators[a]) ? time_batch(&allocators[a], size, stream, window, 2) : -1;
        for (int i = 0; i < 3 && pair > 0; i++) { /* warm up, and find out how many fill a batch */
            repeats[a] = (uint64_t)(batch_ns / (pair * window)) + 1;
            pair = time_batch(&allocators[a], size, stream, window, repeats[a]);
        }
        if (pair <= 0)
            repeats[a] = 0;
    }
    for (size_t b = 0; b < batches; b++) {
        for (int a = 0; a < ALLOCATORS; a++) {
            if (!repeats[a])
                continue;
            synchronize();
            double pair = time_batch(&allocators[a], size, stream, window, repeats[a]);
            if (pair > 0)
                samples[a][counts[a]++] = pair;
        }
    }
    for (int a = 0; a < ALLOCATORS; a++)
        emit((struct result){.group = group, .allocator = allocators[a].name, .size = size, .threads = 1, .streams = "one"},
             samples[a], counts[a]);
}

/* ---- threads ---- */

struct worker {
    const struct allocator *allocator;
    pthread_barrier_t *barrier;
    CUstream stream;
    uint64_t duration_ns;
    double pair_ns; /* out; 0 if out of memory */
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    const uint64_t size = 4 * KIB;
    uint64_t pairs = 0, start, end;
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    int works = time_batch(worker->allocator, size, worker->stream, 1, 32) > 0;
    pthread_barrier_wait(worker->barrier);
    start = end = now();
    while (works && end - start < worker->duration_ns) {
        works = time_batch(worker->allocator, size, worker->stream, 1, 16) > 0;
        pairs += 16;
        end = now();
    }
    worker->pair_ns = works ? (double)(end - start) / (double)pairs : 0;
    return NULL;
}

/* Returns ns per pair as seen by a thread, averaged over all threads. */
static double time_threads(const struct allocator *allocator, unsigned count, const CUstream *streams, int own,
                           uint64_t duration_ns)
{
    struct worker workers[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    pthread_barrier_t barrier;
    double sum = 0;
    pthread_barrier_init(&barrier, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){allocator, &barrier, streams[own ? i : 0], duration_ns, 0};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            die("pthread_create", "no thread to be had");
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sum += workers[i].pair_ns;
    }
    pthread_barrier_destroy(&barrier);
    return sum / count;
}

static void bench_threads(int own)
{
    enum { ROUNDS = 5 };
    CUstream streams[MAX_THREADS];
    const unsigned rounds = quick ? 1 : ROUNDS;
    for (unsigned i = 0; i < MAX_THREADS; i++)
        must(cuda.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (unsigned count = 1; count <= MAX_THREADS; count *= quick ? 8 : 2) {
        double samples[ALLOCATORS][ROUNDS];
        size_t counts[ALLOCATORS] = {0};
        for (unsigned round = 0; round < rounds; round++)
            for (int a = 0; a < ALLOCATORS; a++)
                if (is_measured(&allocators[a]))
                    samples[a][counts[a]++] = time_threads(&allocators[a], count, streams, own, quick ? 20000000 : 100000000);
        for (int a = 0; a < ALLOCATORS; a++)
            emit((struct result){.group = "threads",
                                 .allocator = allocators[a].name,
                                 .size = 4 * KIB,
                                 .threads = count,
                                 .streams = own ? "own" : "one"},
                 samples[a], counts[a]);
    }
    synchronize();
    for (unsigned i = 0; i < MAX_THREADS; i++)
        must(cuda.cuStreamDestroy(streams[i]), "cuStreamDestroy");
}

/* ---- many live buffers ---- */

/* A simple generator suffices to pick buffers all over; the caller keeps its state. */
static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static double time_replacements(const struct allocator *allocator, void **live, size_t count, CUstream stream, uint32_t *state)
{
    enum { REPLACEMENTS = 2000 };
    uint64_t start = now();
    for (int i = 0; i < REPLACEMENTS; i++) {
        size_t which = random_next(state) % count;
        allocator->free(live[which], stream);
        live[which] = NULL;
        if (!allocator->allocate(&live[which], 4 * KIB, stream))
            return -1;
    }
    return (double)(now() - start) / REPLACEMENTS;
}

static double measure_live(const struct allocator *allocator, void **live, size_t count, CUstream stream)
{
    double samples[MAX_BATCHES];
    size_t batches = quick ? 5 : 31, taken = 0;
    uint32_t state = 1;
    if (time_replacements(allocator, live, count, stream, &state) > 0) { /* warm up */
        while (taken < batches && (samples[taken] = time_replacements(allocator, live, count, stream, &state)) > 0)
            taken++;
    }
    return emit(
        (struct result){
            .group = "live", .allocator = allocator->name, .size = 4 * KIB, .threads = 1, .streams = "one", .live = count},
        samples, taken);
}

static void bench_live(CUstream stream)
{
    static void *live[MAX_LIVE];
    const uint64_t few_live = FEW_LIVE;
    size_t memory_free = 0, memory_total = 0;
    must(cuda.cuMemGetInfo(&memory_free, &memory_total), "cuMemGetInfo");
    uint64_t many = memory_free / PAGE * 90 / 100;
    if (many > MAX_LIVE)
        many = MAX_LIVE;
    if (quick && many > 4 * few_live)
        many = 4 * few_live;
    printf("live: a small buffer takes 2 MiB, %zu MiB are free, so \"many\" is %" PRIu64 " buffers here\n",
           memory_free / (size_t)MIB, many);
    if (many < 2 * few_live) {
        printf("live: left out, too little memory\n");
        return;
    }
    /* cufence last: it may keep freed memory, which the others then could not get. */
    for (int a = ALLOCATORS - 1; a >= 0; a--) {
        const struct allocator *allocator = &allocators[a];
        size_t count = 0;
        double few = 0, lots = 0;
        if (!is_measured(allocator))
            continue;
        for (; count < many && allocator->allocate(&live[count], 4 * KIB, stream); count++)
            if (count == FEW_LIVE)
                few = measure_live(allocator, live, FEW_LIVE, stream);
        if (count > FEW_LIVE)
            lots = measure_live(allocator, live, count, stream);
        if (few > 0 && lots > 0)
            printf("%-8s %-16s %zu live against %d: %.2f times the cost\n", "live", allocator->name, count, FEW_LIVE,
                   lots / few);
        while (count > 0)
            if (live[--count])
                allocator->free(live[count], stream);
        synchronize();
        allocator->drop();
    }
}

/* ---- cold ---- */

static uint64_t fresh_mappings(void)
{
    cufence_stats stats;
    return cufence_get_stats(0, &stats) == CUFENCE_OK ? stats.fresh_mappings : 0;
}

/* Allocations are kept until the end, so that none is reused. cufence may still reuse what was freed before, so only
 * allocations that needed a new mapping count. */
static void bench_cold(const uint64_t *sizes, size_t size_count, CUstream stream)
{
    enum { MOST = 64, SIZES = 3 };
    static void *pointers[SIZES][ALLOCATORS][MOST];
    double samples[ALLOCATORS][MOST];
    size_t memory_free = 0, memory_total = 0;
    for (size_t s = 0; s < size_count && s < SIZES; s++) {
        size_t counts[ALLOCATORS] = {0};
        int is_full[ALLOCATORS] = {0};
        must(cuda.cuMemGetInfo(&memory_free, &memory_total), "cuMemGetInfo");
        size_t most = memory_free / ALLOCATORS / 2 / (sizes[s] < PAGE ? PAGE : sizes[s]);
        if (most > (quick ? MOST / 4 : MOST))
            most = quick ? MOST / 4 : MOST;
        for (size_t i = 0; i < most; i++) {
            for (int a = 0; a < ALLOCATORS; a++) {
                if (!is_measured(&allocators[a]) || is_full[a])
                    continue;
                uint64_t before = fresh_mappings(), start = now();
                int works = allocators[a].allocate(&pointers[s][a][i], sizes[s], stream);
                double took = (double)(now() - start);
                is_full[a] = !works;
                if (works && (allocators[a].allocate != fence_allocate || fresh_mappings() > before))
                    samples[a][counts[a]++] = took;
            }
        }
        for (int a = 0; a < ALLOCATORS; a++)
            emit(
                (struct result){
                    .group = "cold", .allocator = allocators[a].name, .size = sizes[s], .threads = 1, .streams = "one"},
                samples[a], counts[a]);
    }
    for (size_t s = 0; s < size_count && s < SIZES; s++)
        for (int a = 0; a < ALLOCATORS; a++)
            for (size_t i = 0; i < MOST; i++)
                if (pointers[s][a][i])
                    allocators[a].free(pointers[s][a][i], stream);
}

/* ---- main ---- */

static void start(void)
{
    if (cufence_init(NULL) != CUFENCE_OK)
        die("cufence_init", cufence_error_detail());
    CUdevice device = open_device();
    /* By default, the driver's pool releases its memory at each synchronisation; keep it warm, as PyTorch does. */
    if (cuda.cuDeviceGetDefaultMemPool && cuda.cuMemPoolSetAttribute && cuda.cuMemPoolTrimTo &&
        cuda.cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS) {
        uint64_t keep = UINT64_MAX;
        must(cuda.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), "cuMemPoolSetAttribute");
    }
    if (json)
        fprintf(json, "{\"bench\": \"alloc\", \"version\": \"%s\", \"processors\": %ld, \"quick\": %s, \"results\": [",
                cufence_version_string(), sysconf(_SC_NPROCESSORS_ONLN), quick ? "true" : "false");
}

static int is_group(const char *name)
{
    static const char *const groups[] = {"pair", "window", "threads", "live", "cold"};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strcmp(groups[i], name) == 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    static const uint64_t sizes[] = {4 * KIB, 2 * MIB, 512 * MIB};
    const size_t count = sizeof sizes / sizeof *sizes;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            quick = 1;
        } else if (strcmp(argv[i], "--alone") == 0) {
            is_alone = 1;
        } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc && !json) {
            json = fopen(argv[++i], "w");
            if (!json)
                die(argv[i], "cannot be written");
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc && is_group(argv[i + 1])) {
            only = argv[++i];
        } else {
            fprintf(stderr, "usage: bench_alloc [--quick] [--alone] [--only pair|window|threads|live|cold] [--json FILE]\n");
            return strcmp(argv[i], "--help") == 0 ? 0 : 2;
        }
    }
    start();
    CUstream stream;
    must(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (is_wanted("cold"))
        bench_cold(sizes, count, stream); /* first, while nothing is warm */
    for (size_t i = 0; i < count && is_wanted("pair"); i++)
        bench_pairs("pair", sizes[i], 1, stream);
    if (is_wanted("window"))
        bench_pairs("window", 4 * KIB, WINDOW, stream);
    for (int is_own = 1; is_own >= 0 && is_wanted("threads"); is_own--)
        bench_threads(is_own);
    if (is_wanted("live"))
        bench_live(stream);
    if (json) {
        fprintf(json, "\n]}\n");
        if (fclose(json) != 0)
            die("--json", "cannot be written to the end");
    }
    return 0;
}
