/* What waits for reports while the program goes on: its signals, its handler, synchronisations; on the simulated device. */
#define TEST_NAME "handlers"
#include "delivery.h"

#include "base/clock.h"
#include "torch/torch.h"

#include <poll.h>
#include <sys/signalfd.h>

/* Signals that the program has blocked stay pending, whatever threads there are. */
NAMED(reads_its_signals)
{
    sigset_t all, mine;
    sigfillset(&all);
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    start("on_fault=error/0");
    CHECK(pthread_sigmask(SIG_BLOCK, &mine, NULL) == 0);
    int fd = signalfd(-1, &mine, 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    CHECK(poll(&wait, 1, 5000) == 1);
}

static cufence_status waited;

static void waits_for_itself(const cufence_fault *fault, void *user)
{
    waited = cufence_wait_reports(30000);
    CHECK(strstr(cufence_error_detail(), "handler"));
}

NAMED(handler_waits)
{
    CHECK_OK(cufence_set_fault_handler(waits_for_itself, NULL));
    faults("on_fault=error/0");
    CHECK(waited == CUFENCE_ERROR_UNSUPPORTED);
}

static void ends_the_process(const cufence_fault *fault, void *user)
{
    exit(5);
}

NAMED(handler_exits)
{
    CHECK_OK(cufence_set_fault_handler(ends_the_process, NULL));
    faults("on_fault=error/0");
}

static int is_in_handler, is_ending; /* atomic */

static void note_end(void)
{
    __atomic_store_n(&is_ending, 1, __ATOMIC_RELEASE);
}

static void ends_it_first(const cufence_fault *fault, void *user)
{
    __atomic_store_n(&is_in_handler, 1, __ATOMIC_RELEASE);
    AWAIT(__atomic_load_n(&is_ending, __ATOMIC_ACQUIRE));
    usleep(100000);
    exit(0);
}

static void *ends_with_success(void *unused)
{
    exit(0);
}

/* The handlers of exit() wait for the report, and its handler ends the process. */
NAMED(handler_exits_in_an_exit)
{
    pthread_t thread;
    CHECK_OK(cufence_set_fault_handler(ends_it_first, NULL));
    start("");
    overrun();
    AWAIT(__atomic_load_n(&is_in_handler, __ATOMIC_ACQUIRE));
    atexit(note_end); /* runs before those of cufence */
    CHECK(pthread_create(&thread, NULL, ends_with_success, NULL) == 0);
    pause();
}

static void never_returns(const cufence_fault *fault, void *user)
{
    __atomic_store_n(&is_in_handler, 1, __ATOMIC_RELEASE);
    for (;;)
        pause();
}

NAMED(handler_hangs)
{
    CHECK_OK(cufence_set_fault_handler(never_returns, NULL));
    start("on_fault=error/0,wait_ms=0/100");
    overrun();
    AWAIT(__atomic_load_n(&is_in_handler, __ATOMIC_ACQUIRE));
}

/* What a synchronisation of PyTorch's calls. The 5 s that it waited are far above what the rest may take. */
NAMED(other_device_is_healthy)
{
    start("on_fault=error/0");
    CUcontext healthy = use_device(1);
    void *pointer = NULL;
    CHECK_OK(cufence_malloc(&pointer, 100, -1, NULL));
    CUcontext faulted = use_device(0);
    overrun();
    CHECK_OK(cufence_wait_reports(20000));
    CHECK(cufence_torch_before_sync(CUFENCE_TORCH_SYNC_DEVICE, 0) == 1);
    CHECK_CU(cuCtxSetCurrent(healthy));
    uint64_t begin = monotonic_ms();
    for (int i = 0; i < 3; i++)
        CHECK(cufence_torch_before_sync(CUFENCE_TORCH_SYNC_DEVICE, 0) == 0);
    CHECK(monotonic_ms() - begin < 5000);
    CHECK_OK(cufence_malloc(&pointer, 100, -1, NULL));
    CHECK_CU(cuCtxSetCurrent(faulted));
    CHECK(cufence_torch_before_sync(CUFENCE_TORCH_SYNC_DEVICE, 0) == 1);
    /* A fault there is awaited though the other device has had one. */
    CHECK_CU(cuCtxSetCurrent(healthy));
    overrun();
    CHECK_OK(cufence_wait_reports(20000));
    CHECK(cufence_fault_count() == 2);
    CHECK(cufence_torch_before_sync(CUFENCE_TORCH_SYNC_DEVICE, 0) == 1);
}

/* ---- what the parent sees ---- */

TEST(test_signals)
{
    expect("reads_its_signals", 0);
}

TEST(test_handlers)
{
    expect("handler_waits", 0);
    expect("handler_exits", 5);
    expect("handler_exits_in_an_exit", 86);
}

/* The process ends once a report would have been made. */
TEST(test_a_handler_that_hangs)
{
    expect("handler_hangs", 0);
}

TEST(test_healthy_device)
{
    expect("other_device_is_healthy", 0);
}

TEST_CONCURRENTLY

int main(int argc, char **argv)
{
    return run_named(argc, argv);
}
