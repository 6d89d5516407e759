/* cufence starts with the program's own cuInit: before a context can exist, but not earlier. So a process that only loads the
 * driver, or forks before it uses CUDA, is left alone. */
#include "preload_internal.h"

#include "api/lifecycle.h"
#include "base/aside.h"
#include "base/env.h"
#include "base/output.h"
#include "base/tally.h"
#include "launch/inspect_table.h"
#include "fault/monitor.h"
#include "fault/program_dump.h"

#include <pthread.h>
#include <unistd.h>

#define LENS_MS 10000 /* how long an end waits until the values of launches are written */

int preload_is_active;
int preload_fault_returned;
const struct options *preload_options;
int preload_devices;
static pid_t preload_pid; /* a child of vfork() shares the rest with its parent */

/* CUDA does not survive a fork: in the child every call goes to the driver, which returns an error. */
static void after_fork(void)
{
    __atomic_store_n(&preload_is_active, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&order_is_on, 0, __ATOMIC_RELEASE);
}

static void start_aside(void *unused)
{
    (void)unused;
    if (cufence_init(NULL) == CUFENCE_OK && driver->cuDeviceGetCount(&preload_devices) == CUDA_SUCCESS &&
        contexts_count_devices(preload_devices)) {
        heap_captures_are_seen();
        heap_gives_back = pools_relieved;
        contexts_watch();
        preload_options = lifecycle_options();
        preload_pid = getpid();
        order_host_is_on = preload_options->streams == STREAMS_HOST;
        order_tell_race = races_tell;
        int is_shown = preload_options->nan || preload_options->values[0] || preload_options->save_values[0];
        if ((preload_options->streams || is_shown) && !order_open(preload_options->streams != STREAMS_OFF))
            output_say("cufence: the host has no memory to follow streams, for streams=, nan=, values= and save_values=\n");
        pthread_atfork(NULL, NULL, after_fork);
        __atomic_store_n(&preload_is_active, 1, __ATOMIC_RELEASE);
    } else {
        tally_note(TALLY_UNGUARDED);
        output_say("cufence: this process runs unguarded: %s\n", cufence_error_detail());
    }
}

static void start(void)
{
    aside_call(start_aside, NULL);
}

static void note(void *result)
{
    tally_note(*(CUresult *)result == CUDA_SUCCESS ? TALLY_STARTED : TALLY_NO_DEVICE);
}

/* The driver reads the program's variables for core dumps in cuInit. */
static void hide_variables(void *is_hidden)
{
    struct options options;
    options_default(&options);
    if (options_parse(&options, env_get("CUFENCE_OPTIONS"), "CUFENCE_OPTIONS") != CUFENCE_OK || options.explain == EXPLAIN_OFF)
        return;
    program_dump_hide();
    *(int *)is_hidden = 1;
}

CUresult hook_cuInit(unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static int is_started; /* atomic */
    int is_hidden = 0;
    if (!__atomic_load_n(&is_started, __ATOMIC_ACQUIRE))
        aside_call(hide_variables, &is_hidden);
    CUresult result = real.cuInit(flags);
    aside_call(note, &result);
    if (result == CUDA_SUCCESS) {
        pthread_once(&once, start);
        __atomic_store_n(&is_started, 1, __ATOMIC_RELEASE);
    }
    if (is_hidden)
        program_dump_show();
    return result;
}

static void stay(void *unused)
{
    (void)unused;
    tally_note_stayed();
}

static void before_exit(void *is_killed)
{
    monitor_await_report();
    if (inspector_now())
        inspector_now()->await(LENS_MS);
    if (!*(const int *)is_killed)
        tally_note_left();
}

void cufence_preload_before_exit(int is_killed)
{
    if (!__atomic_load_n(&preload_is_active, __ATOMIC_ACQUIRE) || getpid() != preload_pid)
        return;
    aside_call(is_killed < 0 ? stay : before_exit, &is_killed);
}
