/* The end of a process whose driver no longer answers, or which is still making a report. */
#include "base/lost_reports.h"
#include "fault/monitor.h"
#include "pokes.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/inotify.h>
#include <sys/stat.h>

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
