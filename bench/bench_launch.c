/*
 * Measures the cost of recording a launch in the ring of recent launches (allocator/launch).
 *
 *   count    launch_count(), called at synchronisations
 *   capture  stack_capture(), which is part of the next
 *   record   launch_record() of a kernel with four arguments, one thread
 *   long     launch_record() of a kernel with 4 KiB of arguments, as those for lists of tensors have
 *   graph    launch_record_graph()
 *   order    what streams=on adds to a launch that is given two of a thousand buffers
 *   threads  launch_record() on 2 to 16 threads in one context
 *   launch   launches of an empty kernel with four arguments, plain and recorded, in alternating batches: the medians, the
 *            median of the ratios of neighbouring batches, and the time added per launch
 *
 * Results are nanoseconds per call, medians over batches. Runs on the driver that CUFENCE_DRIVER names. On the simulated
 * device, the times of launches mean nothing. At the end the ring is checked: exit status 1 if it does not hold what was
 * launched. --ring N is the option remember=65536/N: how many launches to keep, a power of two.
 */
#include <cufence.h>

#include "driver/driver.h"
#include "launch/launch.h"
#include "order/order.h"
#include "one_kernel.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_BATCHES = 201, LAUNCHES = 200, MAX_THREADS = 16, MAX_RING = 65536 };

static struct one_kernel kernel;
static uint64_t ring = 1024; /* the option's default in a program without Python */
static int quick;

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_launch: %s: %s\n", what, why);
    exit(1);
}

static void must(CUresult result, const char *call)
{
    if (driver_check(result, call) != CUFENCE_OK)
        die(call, cufence_error_detail());
}

/* ---- figures ---- */

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare);
    return samples[count / 2];
}

static size_t batches(void)
{
    return quick ? 11 : MAX_BATCHES;
}

/* ---- one call ---- */

static void call_count(uint64_t i)
{
    if (launch_count(kernel.entry) == UINT64_MAX - i)
        die("launch_count", "cannot be that much");
}

static void call_capture(uint64_t i)
{
    static struct stack stacks[MAX_RING]; /* as far apart as in the ring, so that the memory is not warm */
    stack_capture(&stacks[i % ring]);
}

static void call_record(uint64_t i)
{
    one_kernel_record(&kernel, i);
}

static void call_long(uint64_t i)
{
    static uint64_t arguments[512];
    static size_t size = sizeof arguments;
    static void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    const struct launch_call call = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = kernel.stream, .extra = extra};
    arguments[0] = i;
    launch_record(kernel.entry, &call);
}

static void call_graph(uint64_t i)
{
    launch_record_graph(kernel.entry, (CUgraphExec)(uintptr_t)(i + 1), kernel.stream, NULL);
}

enum { BUFFERS = 1000 };
static void *buffers[BUFFERS];

static void call_order(uint64_t i)
{
    uint64_t x = (uint64_t)(uintptr_t)buffers[i % BUFFERS], y = (uint64_t)(uintptr_t)buffers[i * 7 % BUFFERS];
    float a = 2;
    int n = 1000;
    const struct launch_call call = {.function = kernel.function,
                                     .grid = {1, 1, 1},
                                     .block = {32, 1, 1},
                                     .stream = kernel.stream,
                                     .parameters = (void *[]){&x, &y, &a, &n}};
    launch_ended(&(struct launch_event){.context = kernel.entry, .call = &call, .stream = kernel.stream}, CUDA_SUCCESS);
}

static void start_order(void)
{
    for (int i = 0; i < BUFFERS; i++) {
        if (cufence_malloc(&buffers[i], 4096, 0, (cufence_stream)kernel.stream) != CUFENCE_OK)
            die("cufence_malloc", cufence_error_detail());
    }
    if (!order_open())
        die("order_open", "the host has no memory");
    call_order(0);
    struct order_race race;
    CUstream other;
    must(driver->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (!order_before_free((uint64_t)(uintptr_t)buffers[0], other, &race))
        die("order", "has not seen the launch");
}

static void call_launch(uint64_t i)
{
    must(one_kernel_launch(&kernel, i), "cuLaunchKernel");
}

static void call_recorded_launch(uint64_t i)
{
    call_record(i);
    call_launch(i);
}

static double time_calls(void (*call)(uint64_t), uint64_t count)
{
    uint64_t start = now();
    for (uint64_t i = 0; i < count; i++)
        call(i);
    return (double)(now() - start) / (double)count;
}

/* Calls from deep inside a program: with a full capture's worth of stack above. */
__attribute__((noinline)) static double time_deep(void (*call)(uint64_t), uint64_t count)
{
    volatile uint64_t words[2 * STACK_WORDS];
    words[0] = 0;
    double time = time_calls(call, count);
    words[1] = words[0];
    return time;
}

static void bench_calls(const char *name, void (*call)(uint64_t))
{
    static double samples[MAX_BATCHES];
    time_deep(call, 2 * ring);
    for (size_t i = 0; i < batches(); i++)
        samples[i] = time_deep(call, 10240);
    printf("%-9s %8.1f ns\n", name, median(samples, batches()));
}

/* ---- threads ---- */

static void *record_much(void *barrier)
{
    double *time = malloc(sizeof *time);
    time_deep(call_record, 2 * ring); /* fills the thread's new ring */
    pthread_barrier_wait(barrier);
    if (time)
        *time = time_deep(call_record, 20480);
    return time;
}

static void bench_threads(size_t count)
{
    pthread_t threads[MAX_THREADS];
    pthread_barrier_t barrier;
    double times[MAX_THREADS] = {0};
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, record_much, &barrier) != 0)
            die("pthread_create", "failed");
    for (size_t i = 0; i < count; i++) {
        void *time = NULL;
        pthread_join(threads[i], &time);
        times[i] = time ? *(double *)time : 0;
        free(time);
    }
    pthread_barrier_destroy(&barrier);
    printf("threads   %8.1f ns on %zu threads\n", median(times, count), count);
}

/* ---- launches ---- */

static void bench_launches(void)
{
    static double plain[MAX_BATCHES], recorded[MAX_BATCHES], ratios[MAX_BATCHES], added[MAX_BATCHES];
    for (size_t i = 0; i < batches() + 1; i++) {
        size_t at = i ? i - 1 : 0; /* the first pair warms up */
        for (int half = 0; half < 2; half++) {
            int is_recorded = (half + (int)i) % 2;
            double time = time_deep(is_recorded ? call_recorded_launch : call_launch, LAUNCHES);
            *(is_recorded ? &recorded[at] : &plain[at]) = time;
            must(driver->cuStreamSynchronize(kernel.stream), "cuStreamSynchronize");
        }
        ratios[at] = recorded[at] / plain[at];
        added[at] = recorded[at] - plain[at];
    }
    size_t count = batches();
    printf("launch    %8.1f ns plain, %8.1f ns recorded: ratio %.3f, %.1f ns more (%zu pairs)\n", median(plain, count),
           median(recorded, count), median(ratios, count), median(added, count), count);
}

/* ---- contents of the ring ---- */

static void check_ring(void)
{
    struct launch_entry *entries = calloc(ring, sizeof *entries);
    const struct launch_query query = {.context = kernel.entry, .device = -1, .kernel = "empty"};
    uint64_t before = launch_count(kernel.entry);
    for (uint64_t i = 0; i < 2 * ring; i++)
        call_record(i);
    if (!entries)
        die("the ring", "no memory to read it into");
    size_t count = launch_read(&query, entries, NULL, ring);
    if (launch_count(kernel.entry) != before + 2 * ring || count != ring)
        die("the ring", "does not hold what was launched");
    if (!entries[0].function->has_layout)
        printf("arguments are not kept: the driver does not tell their layout (CUDA 12.4 and later do)\n");
    for (uint64_t i = 0; i < ring && entries[0].function->has_layout; i++) {
        const uint64_t words[] = {2 * ring - 1 - i, ~(2 * ring - 1 - i)};
        if (entries[i].kept_bytes != 24 || memcmp(entries[i].bytes, words, sizeof words) != 0)
            die("the ring", "holds other arguments than the launches had");
    }
    free(entries);
}

/* ---- main ---- */

static void start(void)
{
    const char *failure = one_kernel_start(&kernel, ring);
    if (failure)
        die("start", failure);
    printf("cufence %s on %s, CUDA %d.%d; %" PRIu64 " launches kept, %.1f MiB\n", cufence_version_string(), kernel.device,
           driver->version / 1000, driver->version % 1000 / 10, ring, (double)ring * sizeof(struct launch_entry) / (1 << 20));
}

static int read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            quick = 1;
        else if (strcmp(argv[i], "--ring") == 0 && i + 1 < argc)
            ring = strtoull(argv[++i], NULL, 10);
        else
            return 0;
    }
    return ring > 0 && ring <= MAX_RING && (ring & (ring - 1)) == 0;
}

int main(int argc, char **argv)
{
    if (!read_arguments(argc, argv)) {
        fprintf(stderr, "usage: bench_launch [--quick] [--ring N], where N is a power of two of at most %d\n", MAX_RING);
        return 2;
    }
    start();
    check_ring();
    bench_calls("count", call_count);
    bench_calls("capture", call_capture);
    bench_calls("record", call_record);
    bench_calls("long", call_long);
    bench_calls("graph", call_graph);
    for (size_t threads = 2; threads <= MAX_THREADS; threads *= 2)
        bench_threads(threads);
    bench_launches();
    check_ring();
    start_order();
    bench_calls("order", call_order);
    return 0;
}
