/* The end of a process whose driver no longer answers, or which is still making a report. */
#include "base/lost_reports.h"
#include "fault/monitor.h"
#include "pokes.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>

static int is_hanging; /* atomic */

static CUresult hang(CUdeviceptr address, size_t size)
{
    __atomic_store_n(&is_hanging, 1, __ATOMIC_RELEASE);
    while (is_hanging)
        pause();
    return CUDA_ERROR_UNKNOWN;
}

/* The background thread unmaps what uaf=strict has freed. */
STORY(the_background_thread_hangs)
{
    start("uaf=strict,slack=off");
    void *pointer = allocate(MIB, NULL);
    ((struct driver *)(uintptr_t)driver)->cuMemUnmap = hang;
    CHECK_OK(cufence_free(pointer, NULL));
    AWAIT(__atomic_load_n(&is_hanging, __ATOMIC_ACQUIRE));
    CHECK(is_hanging);
    alarm(20); /* against what this is about: an end that waits for the thread */
}

/* ---- reports that wait for the reader of log= ---- */

static char log_name[64];
static int log_pipe, log_opened;

/* A full pipe. Who writes there has to wait until it is read. */
static void start_with_full_log(const char *options)
{
    char all[128], some[4096] = "";
    snprintf(log_name, sizeof log_name, "full_log.%d", (int)getpid());
    CHECK(mkfifo(log_name, 0600) == 0);
    log_pipe = open(log_name, O_RDWR | O_NONBLOCK);
    while (write(log_pipe, some, sizeof some) > 0)
        ;
    log_opened = inotify_init1(0);
    CHECK(log_pipe >= 0 && inotify_add_watch(log_opened, log_name, IN_OPEN) >= 0);
    snprintf(all, sizeof all, "log=%s%s", log_name, options);
    start(all);
}

static void *read_log(void *unused)
{
    char some[4096];
    usleep(300000);
    while (read(log_pipe, some, sizeof some) > 0)
        ;
    return NULL;
}

/* Returns when another thread has begun to write, and will not end before it is waited for. */
static void await_writer(void)
{
    struct inotify_event event;
    pthread_t reader;
    CHECK(read(log_opened, &event, sizeof event) > 0);
    CHECK(cufence_fault_count() == 0);
    unlink(log_name);
    CHECK(pthread_create(&reader, NULL, read_log, NULL) == 0 && pthread_detach(reader) == 0);
}

static void *misuse(void *where)
{
    monitor_misuse(&(const struct misuse){
        .kind = "invalid free", .call = "cuMemFree", .sentence = "frees what is no buffer", .where = where, .now_ns = 1});
    return NULL;
}

static void end_in_a_report(void)
{
    static cufence_description nowhere = {.place = CUFENCE_PLACE_UNKNOWN};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, misuse, &nowhere) == 0 && pthread_detach(thread) == 0);
    await_writer();
}

FINDS(the_end_waits_for_a_report, "SUMMARY: cufence: invalid free")
{
    start_with_full_log("");
    allocate(1000, NULL);
    end_in_a_report();
}

FINDS(the_end_without_a_context_does, "SUMMARY: cufence: invalid free")
{
    start_with_full_log("");
    end_in_a_report();
}

FINDS(an_end_without_exit_handlers_waits_for_a_report, "SUMMARY: cufence: invalid free")
{
    start_with_full_log("");
    end_in_a_report();
    monitor_await_report(); /* as the preload library does in _exit() and abort() */
    CHECK(cufence_fault_count() == 1);
}

/* The program may have the error already. */
FINDS(nor_does_it_leave_a_dump_half_read, "SUMMARY: cufence: overrun")
{
    start_with_full_log("");
    char *buffer = allocate(4096, NULL);
    write_at(buffer + 4096, 4, 0, NULL);
    await_writer();
    monitor_await_report();
    CHECK(cufence_fault_count() == 1);
}

FINDS(what_could_not_be_reported_is_counted, "cufence: something was found, without a report; 1 allocation guarded")
{
    start("");
    allocate(1000, NULL);
    untold_for_ever();
}

FINDS(a_wait_for_reports_knows_of_one_that_has_begun, "1 byte changed, 1 byte before the start of buffer #1")
{
    tune("slack_every=1");
    start_with_full_log(",slack=on");
    char *buffer = allocate(1000, NULL);
    write_at(buffer - 1, 1, 0, NULL);
    release(buffer, NULL);
    await_writer();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    CHECK(cufence_fault_count() == 1);
}

/* A device whose every slot is taken by kernels of the program that wait for each other, and for the host: cufence's own
 * kernels begin only when those have ended. Until then nobody may wait for them, and nothing may go wrong with memory that they
 * are to check. */

enum { BUFFERS = 60, ROUNDS = 4 };

static uint32_t room, go, met[2];

/* meet(int self): tells the other one, and ends when both are there and the host has said so. */
static void meet(const cusim_thread *thread, void *const *arguments)
{
    int self = *(const int *)arguments[0];
    if (thread->thread_index[0])
        return;
    __atomic_store_n(&met[self], 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&met[!self], __ATOMIC_ACQUIRE) || !__atomic_load_n(&go, __ATOMIC_ACQUIRE))
        usleep(100);
}

static void launch_meeting(CUstream streams[2])
{
    static const size_t bytes[] = {4};
    const cusim_kernel kernel = {.name = "meet", .function = meet, .argument_bytes = bytes, .argument_count = 1};
    CUmodule module;
    CUfunction found;
    cusim_register_kernel(&kernel);
    CHECK_CU(cuModuleLoadData(&module, "any"));
    CHECK_CU(cuModuleGetFunction(&found, module, "meet"));
    for (int self = 0; self < 2; self++) {
        void *arguments[] = {&self};
        CHECK_CU(cuLaunchKernel(found, 1, 1, 1, 1, 1, 1, 0, streams[self], arguments, NULL));
    }
}

static size_t size_of(int buffer)
{
    return buffer % 3 ? 100 + 13 * (size_t)buffer : 2 * MIB + (size_t)buffer;
}

/* What the program does beside its kernels: nothing that waits for the device. */
static void allocate_and_free(CUstream *streams)
{
    static char *buffers[BUFFERS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BUFFERS; i++) {
            buffers[i] = allocate(size_of(i), streams[i % 3]);
            CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffers[i], 1, size_of(i), streams[i % 3]));
        }
        for (int i = 0; i < BUFFERS; i++) {
            if (i % 5 == 0) /* freed on another stream than the one that uses it */
                CHECK_OK(cufence_record_stream(buffers[i], streams[i % 3]));
            release(buffers[i], streams[i % 5 ? i % 3 : (i + 1) % 3]);
        }
    }
}

/* Whether the set has reached both ends of the buffer, and nothing has come behind it: cufence writes there or everywhere. */
static int is_set(char *buffer, size_t size, CUstream stream)
{
    size_t end = size < 8192 ? size / 2 : 4096;
    return sum_at(buffer, end, stream) == end && sum_at(buffer + size - end, end, stream) == end;
}

static void crowded(const char *figures, const char *options)
{
    enum { KEPT = 20 };
    char *kept[KEPT];
    tune(figures);
    start(options);
    CUstream streams[] = {new_stream(), new_stream(), new_stream()};
    allocate_and_free(streams); /* cufence's kernels are loaded by now */
    for (int i = 0; i < KEPT; i++)
        kept[i] = allocate(size_of(i), streams[2]);
    CHECK_CU(cuCtxSynchronize());
    launch_meeting(streams);
    cusim_hold_own(&room);
    for (int i = 0; i < KEPT; i++)
        CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)kept[i], 1, size_of(i), streams[2]));
    time_t began = time(NULL);
    allocate_and_free(streams);
    CHECK(time(NULL) - began < 9); /* a wait for one of cufence's kernels takes 10 s */
    CHECK(cuStreamQuery(streams[0]) == CUDA_ERROR_NOT_READY && cuStreamQuery(streams[1]) == CUDA_ERROR_NOT_READY);
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    AWAIT(__atomic_load_n(&met[0], __ATOMIC_ACQUIRE) && __atomic_load_n(&met[1], __ATOMIC_ACQUIRE));
    __atomic_store_n(&room, 1, __ATOMIC_RELEASE);
    CHECK_CU(cuCtxSynchronize());
    for (int i = 0; i < KEPT; i++)
        CHECK(is_set(kept[i], size_of(i), streams[2]));
    if (strstr(options, "slack=on"))
        CHECK(found_by_check(0) == 0);
    CHECK(cufence_fault_count() == 0);
}

#define CROWDED(name, figures, options)                                                                                        \
    STORY(name)                                                                                                                \
    {                                                                                                                          \
        crowded(figures, options);                                                                                             \
    }
CROWDED(watched, "slack_every=1", "slack=on")
CROWDED(by_default, "", "")
CROWDED(strict, "slack_every=2", "slack=on,uaf=strict")
CROWDED(packed, "slack_every=1", "small=pack")
CROWDED(adaptive, "uaf_share=100,idle_age=1", "slack=on")
CROWDED(filled, "slack_every=3", "slack=on,fill=0x5a/0xa5")
