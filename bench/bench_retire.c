/*
 * Measures the ways to make a late access to a freed buffer fault, with plain driver calls, for buffers of one page and of
 * more:
 *
 *   unmap    unmap the buffer, map its memory at the next address, give access                (with a cache of handles)
 *   create   the same with new physical memory each time, which is released                  (without a cache of handles)
 *   twin     map the memory at the next address first, then unmap the old one                 (how the heap retires)
 *   access   take access away, later give it back                                             (a bounded quarantine)
 *
 * Prints the median microseconds of a whole cycle and the mean of each call, with 1, 2 and 4 threads that do the same at once;
 * beside a program that gives the device short work all the time, also what one of its calls takes. Then what a call over
 * several neighbouring mappings costs for each of them. CUFENCE_DRIVER names the driver; on the simulated device the figures
 * mean nothing.
 */
#include "bench_driver.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define MIB ((uint64_t)1 << 20)
#define PAGE (2 * MIB)
#define STRIDE (66 * MIB) /* a page and its guard; larger buffers have larger guards */

enum { CYCLES = 1000, LIVE = 64, THREADS = 4, NEIGHBOURS = 64, CALLS = 5 };
enum call { CREATE, MAP, GIVE, TAKE, UNMAP };
static const char *const call_names[CALLS] = {"create+release", "map", "set access", "take access", "unmap"};

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static CUmemGenericAllocationHandle create(uint64_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    MUST(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static void set_access(CUdeviceptr address, uint64_t bytes, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {.flags = flags};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    MUST(cuMemSetAccess(address, bytes, &access, 1));
}

/* One thread's buffers: LIVE of them, in turn. Addresses ascend and are never used again. */
struct lane {
    uint64_t bytes, stride;
    CUdeviceptr start, next, at[LIVE];
    CUmemGenericAllocationHandle handles[LIVE];
    double spent[CALLS], *cycle; /* microseconds */
    void (*way)(struct lane *lane, int i);
};

#define TIMED(lane, which, statement)                                                                                          \
    do {                                                                                                                       \
        double began_ = now_us();                                                                                              \
        statement;                                                                                                             \
        (lane)->spent[which] += now_us() - began_;                                                                             \
    } while (0)

static void map_next(struct lane *lane, int i)
{
    CUdeviceptr address = lane->next;
    lane->next += lane->stride;
    TIMED(lane, MAP, MUST(cuMemMap(address, lane->bytes, 0, lane->handles[i], 0)));
    TIMED(lane, GIVE, set_access(address, lane->bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    lane->at[i] = address;
}

static void unmap(struct lane *lane, CUdeviceptr address)
{
    TIMED(lane, UNMAP, MUST(cuMemUnmap(address, lane->bytes)));
}

static void by_unmap(struct lane *lane, int i)
{
    unmap(lane, lane->at[i]);
    map_next(lane, i);
}

static void by_create(struct lane *lane, int i)
{
    unmap(lane, lane->at[i]);
    TIMED(lane, CREATE, MUST(cuMemRelease(lane->handles[i])));
    TIMED(lane, CREATE, lane->handles[i] = create(lane->bytes));
    map_next(lane, i);
}

static void by_twin(struct lane *lane, int i)
{
    CUdeviceptr old = lane->at[i];
    map_next(lane, i);
    unmap(lane, old);
}

static void by_access(struct lane *lane, int i)
{
    int oldest = (i + 1) % LIVE; /* what was taken away longest ago comes back */
    TIMED(lane, TAKE, set_access(lane->at[i], lane->bytes, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    TIMED(lane, GIVE, set_access(lane->at[oldest], lane->bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

static const struct {
    const char *name;
    void (*way)(struct lane *lane, int i);
} ways[] = {{"unmap", by_unmap}, {"create", by_create}, {"twin", by_twin}, {"access", by_access}};
enum { WAYS = sizeof ways / sizeof *ways };

static void *play(void *argument)
{
    struct lane *lane = argument;
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    for (int i = 0; i < LIVE; i++) {
        lane->handles[i] = create(lane->bytes);
        map_next(lane, i);
    }
    memset(lane->spent, 0, sizeof lane->spent);
    for (int i = 0; i < CYCLES; i++) {
        double began = now_us();
        lane->way(lane, i % LIVE);
        lane->cycle[i] = now_us() - began;
    }
    for (int i = 0; i < LIVE; i++) {
        unmap(lane, lane->at[i]);
        must(cuda.cuMemRelease(lane->handles[i]), "cuMemRelease");
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* ---- the program beside them ---- */

#define WORK_BYTES (4 * MIB) /* a few microseconds of the device */
enum { SYNCHRONISE_EVERY = 32 };

struct program {
    pthread_t thread;
    int is_wanted, is_over; /* is_over: atomic */
    uint64_t calls;
    double spent; /* microseconds in them */
};

static void *work(void *argument)
{
    struct program *program = argument;
    CUstream stream;
    CUdeviceptr memory;
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc(&memory, WORK_BYTES));
    while (!__atomic_load_n(&program->is_over, __ATOMIC_ACQUIRE)) {
        double began = now_us();
        MUST(cuMemsetD8Async(memory, 0, WORK_BYTES, stream));
        program->spent += now_us() - began;
        if (++program->calls % SYNCHRONISE_EVERY == 0)
            MUST(cuStreamSynchronize(stream));
    }
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemFree(memory));
    MUST(cuStreamDestroy(stream));
    return NULL;
}

static void begin(struct program *program)
{
    if (program->is_wanted && pthread_create(&program->thread, NULL, work, program))
        die("pthread_create", "no thread");
}

static void end(struct program *program)
{
    if (!program->is_wanted)
        return;
    __atomic_store_n(&program->is_over, 1, __ATOMIC_RELEASE);
    pthread_join(program->thread, NULL);
    printf(", the program's call %.1f", program->spent / (double)program->calls);
}

static void measure_program_alone(void)
{
    struct program program = {.is_wanted = 1};
    printf("the program alone");
    begin(&program);
    usleep(100000);
    end(&program);
    printf("\n");
}

/* ---- measurements ---- */

static void measure(int way, uint64_t bytes, int threads, int has_program)
{
    static double cycles[THREADS][CYCLES];
    struct lane lanes[THREADS];
    pthread_t others[THREADS];
    struct program program = {.is_wanted = has_program};
    for (int i = 0; i < threads; i++) {
        uint64_t guard = bytes > STRIDE - PAGE ? bytes : STRIDE - PAGE;
        lanes[i] = (struct lane){.bytes = bytes, .stride = bytes + guard, .cycle = cycles[i], .way = ways[way].way};
        MUST(cuMemAddressReserve(&lanes[i].start, lanes[i].stride * (CYCLES + LIVE), 0, 0, 0));
        lanes[i].next = lanes[i].start;
    }
    begin(&program);
    double began = now_us();
    for (int i = 0; i < threads; i++)
        pthread_create(&others[i], NULL, play, &lanes[i]);
    for (int i = 0; i < threads; i++)
        pthread_join(others[i], NULL);
    double all = now_us() - began;
    qsort(cycles[0], CYCLES, sizeof(double), ascending);
    printf("%-7s %5llu MiB  %d thread%s  cycle %7.1f us (%.1f .. %.1f), all together one in %.1f", ways[way].name,
           (unsigned long long)(bytes / MIB), threads, threads == 1 ? " " : "s", cycles[0][CYCLES / 2], cycles[0][CYCLES / 20],
           cycles[0][CYCLES - CYCLES / 20], all / (threads * (CYCLES + LIVE)));
    for (int call = 0; call < CALLS; call++) {
        if (lanes[0].spent[call] > 0)
            printf(", %s %.1f", call_names[call], lanes[0].spent[call] / CYCLES);
    }
    end(&program);
    printf("\n");
    for (int i = 0; i < threads; i++)
        MUST(cuMemAddressFree(lanes[i].start, lanes[i].stride * (CYCLES + LIVE)));
}

/* One call over `count` neighbouring mappings of a page. */
static void measure_neighbours(int count)
{
    CUmemGenericAllocationHandle handles[NEIGHBOURS];
    double given = 0, unmapped = 0;
    int rounds = CYCLES / count;
    uint64_t bytes = (uint64_t)count * PAGE;
    CUdeviceptr start;
    MUST(cuMemAddressReserve(&start, bytes * (uint64_t)rounds, 0, 0, 0));
    for (int i = 0; i < count; i++)
        handles[i] = create(PAGE);
    for (int round = 0; round < rounds; round++) {
        CUdeviceptr at = start + bytes * (uint64_t)round;
        for (int i = 0; i < count; i++)
            MUST(cuMemMap(at + PAGE * (uint64_t)i, PAGE, 0, handles[i], 0));
        double began = now_us();
        set_access(at, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        double between = now_us();
        MUST(cuMemUnmap(at, bytes));
        given += between - began;
        unmapped += now_us() - between;
    }
    printf("one call over %2d neighbours, for each: set access %.1f us, unmap %.1f\n", count, given / (rounds * count),
           unmapped / (rounds * count));
    for (int i = 0; i < count; i++)
        MUST(cuMemRelease(handles[i]));
    MUST(cuMemAddressFree(start, bytes * (uint64_t)rounds));
}

int main(void)
{
    static const uint64_t sizes[] = {PAGE, 32 * MIB, 256 * MIB};
    open_device();
    printf("median of %d cycles (5%% .. 95%%), mean of each call\n", CYCLES);
    measure_program_alone();
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        for (int way = 0; way < WAYS; way++) {
            for (int threads = 1; threads <= THREADS; threads *= 2) {
                if (LIVE * sizes[size] * (uint64_t)threads > 2 * LIVE * sizes[2])
                    continue; /* the device's memory */
                measure(way, sizes[size], threads, 0);
                measure(way, sizes[size], threads, 1);
            }
        }
    }
    for (int count = 1; count <= NEIGHBOURS; count *= 8)
        measure_neighbours(count);
    return 0;
}
