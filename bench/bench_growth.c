/*
 * Allocates and frees a hundred million times and says whether anything grows: memory of the device, mappings, memory of the
 * host.
 *
 *   bench_growth [--pairs N]
 *
 * Sixteen buffers of 97 sizes (1 byte to 9 MiB) are live at any time, on four streams; one in 256 is freed on another stream
 * than it was allocated on, one in 1024 is recorded for another. The first tenth warms up: remember=1024 freed addresses are
 * kept in mind. The exit status is 1 if the device's mapped memory or the host's resident memory is more than a quarter (and 4
 * MiB) above what it was then, or if a buffer was lost. Runs on the driver that CUFENCE_DRIVER names. cufence reads its options
 * from CUFENCE_OPTIONS.
 */
#include "bench_driver.h"

#include <inttypes.h>
#include <time.h>

enum { LIVE = 16, SIZES = 97, STREAMS = 4 };

struct figures {
    uint64_t mapped, fresh, retired, tested, resident;
};

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%llu %llu", &pages, &resident) != 2)
        die("/proc/self/statm", "cannot be read");
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct figures look(uint64_t pairs, double seconds)
{
    cufence_stats stats = {.struct_size = sizeof stats};
    if (cufence_get_stats(0, &stats) != CUFENCE_OK)
        die("cufence_get_stats", cufence_error_detail());
    struct figures now = {stats.mapped_bytes, stats.fresh_mappings, stats.retired_mappings, stats.tested_buffers,
                          resident_bytes()};
    printf("%12" PRIu64 " pairs %7.1f s  live %" PRIu64 "  mapped %6.1f MiB  host %6.1f MiB  new mappings %" PRIu64
           "  unmapped %" PRIu64 "  tested %" PRIu64 "\n",
           pairs, seconds, stats.live_buffers, (double)now.mapped / 0x1p20, (double)now.resident / 0x1p20, now.fresh,
           now.retired, now.tested);
    fflush(stdout);
    return now;
}

static int has_grown(const char *what, uint64_t before, uint64_t after)
{
    if (after <= before + before / 4 + (4u << 20))
        return 0;
    printf("%s has grown: %" PRIu64 " bytes, and %" PRIu64 " after a tenth of the pairs\n", what, after, before);
    return 1;
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static size_t size_of(uint32_t number)
{
    uint32_t kind = number % SIZES;
    return kind % 13 == 0 ? ((size_t)1 + kind / 13) << 20 : (size_t)kind * kind * 7 + 1;
}

int main(int argc, char **argv)
{
    uint64_t pairs = 100000000;
    if (argc == 3 && strcmp(argv[1], "--pairs") == 0) {
        pairs = strtoull(argv[2], NULL, 10);
    } else if (argc != 1) {
        fprintf(stderr, "usage: bench_growth [--pairs N]\n");
        return 2;
    }
    CUstream streams[STREAMS];
    void *live[LIVE] = {0};
    unsigned made_on[LIVE] = {0};
    if (cufence_init("remember=1024") != CUFENCE_OK)
        die("cufence_init", cufence_error_detail());
    open_device();
    for (int i = 0; i < STREAMS; i++)
        must(cuda.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    struct figures warm = {0}, last = {0};
    uint32_t random = 1;
    for (uint64_t i = 1; i <= pairs; i++) {
        random = random * 1664525u + 1013904223u;
        unsigned which = random >> 28, stream = random >> 26 & 3;
        if (live[which]) {
            unsigned other = i % 256 ? made_on[which] : stream;
            if (i % 1024 == 0)
                cufence_record_stream(live[which], streams[(stream + 1) % STREAMS]);
            if (other != made_on[which])
                must(cuda.cuStreamSynchronize(streams[made_on[which]]), "cuStreamSynchronize");
            if (cufence_free(live[which], streams[other]) != CUFENCE_OK)
                die("cufence_free", cufence_error_detail());
        }
        made_on[which] = stream;
        if (cufence_malloc(&live[which], size_of(random >> 8), 0, streams[stream]) != CUFENCE_OK)
            die("cufence_malloc", cufence_error_detail());
        if (i == pairs / 100 || i == pairs / 10 || i == pairs / 2 || i == pairs)
            last = look(i, seconds_since(&start));
        if (i == pairs / 10)
            warm = last;
    }
    for (int i = 0; i < LIVE; i++)
        cufence_free(live[i], streams[made_on[i]]);
    must(cuda.cuCtxSynchronize(), "cuCtxSynchronize");
    cufence_stats stats = {.struct_size = sizeof stats};
    cufence_get_stats(0, &stats);
    if (stats.live_buffers)
        printf("%" PRIu64 " buffers are lost\n", stats.live_buffers);
    int is_grown =
        has_grown("mapped memory", warm.mapped, last.mapped) | has_grown("the host's memory", warm.resident, last.resident);
    puts(is_grown || stats.live_buffers ? "growth" : "no growth");
    return is_grown || stats.live_buffers != 0;
}
