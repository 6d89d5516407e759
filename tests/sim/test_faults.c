/* From a bug in a kernel to the report, the handler, the errors and the exit status, on the simulated device.
 * test_preload_faults.c has other bugs, and test_delivery.c the log. */
#include "base/clock.h"
#include "fault_story.h"
#include "torch/torch.h"

#include <poll.h>
#include <sys/signalfd.h>

static struct {
    int calls, line, has_address, allocated;
    cufence_fault fault;
    char kind[32], kernel[64], file[64], label[64];
    uint64_t address, buffer, size;
    size_t buffer_struct;
} seen;

static void handler(const cufence_fault *fault, void *user)
{
    void *memory = NULL;
    CHECK(user == &seen);
    CHECK(fault->text && fault->text[strlen(fault->text) - 1] == '\n');
    seen.calls++;
    seen.fault = *fault;
    seen.allocated = (int)cufence_malloc(&memory, 100, fault->device, NULL);
    seen.line = fault->line;
    seen.has_address = fault->is_address_known;
    seen.address = fault->address;
    snprintf(seen.kind, sizeof seen.kind, "%s", fault->kind);
    snprintf(seen.kernel, sizeof seen.kernel, "%s", fault->kernel ? fault->kernel : "");
    snprintf(seen.file, sizeof seen.file, "%s", fault->file ? fault->file : "");
    if (fault->buffer) {
        seen.buffer = fault->buffer->address;
        seen.size = fault->buffer->size;
        seen.buffer_struct = fault->buffer->struct_size;
        snprintf(seen.label, sizeof seen.label, "%s", fault->buffer->label);
    }
}

STORY(overrun)
{
    cufence_set_fault_handler(handler, &seen);
    start("on_fault=error/0");
    allocate(COUNT * 4, "before");
    char *buffer = allocate(COUNT * 4, "weights");
    allocate(COUNT * 4, "behind");
    CHECK_CU(launch("_Z10write_pastPfi", buffer, NULL));
    settle();
    CHECK(seen.calls == 1 && cufence_fault_count() == 1 && seen.allocated == CUFENCE_ERROR_FAULTED);
    CHECK(strcmp(seen.kind, "overrun") == 0 && strcmp(seen.kernel, "write_past(float*, int)") == 0);
    CHECK(strcmp(seen.file, "model.cu") == 0 && seen.line == 12);
    CHECK(seen.has_address && seen.address == (uintptr_t)buffer + COUNT * 4);
    CHECK(seen.buffer == (uintptr_t)buffer && seen.size == COUNT * 4 && strcmp(seen.label, "weights") == 0);
    CHECK(seen.fault.struct_size == sizeof seen.fault && seen.buffer_struct == sizeof(cufence_buffer));
    CHECK(seen.fault.access == CUFENCE_ACCESS_WRITE && seen.fault.width == 4 &&
          seen.fault.certainty == CUFENCE_CERTAINTY_EXACT);
    CHECK(seen.fault.place == CUFENCE_PLACE_PAST_END && seen.fault.distance == 0);
    CHECK(seen.fault.is_thread_known && seen.fault.block[0] == 7 && seen.fault.thread[0] == 104 && !seen.fault.thread[1]);
    char text[4096];
    size_t length = 0, room = 10;
    CHECK_OK(cufence_last_report(NULL, &length));
    CHECK_OK(cufence_last_report(text, &room));
    CHECK(length > 200 && length < sizeof text && room == length && strlen(text) == 9);
    CHECK_OK(cufence_last_report(text, &room));
    CHECK(strlen(text) + 1 == length);
    CHECK(strstr(text, "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #2 \"weights\""));
    CHECK(strstr(text, "<<<(8,1,1), (128,1,1)>>>") && strstr(text, "model.cu:12"));
    CHECK(strstr(text, "block (7,0,0) thread (104,0,0)") && strstr(text, "label \"weights\""));
}

STORY(becomes_a_real_error)
{
    void *none = NULL;
    start("on_fault=error/0");
    CHECK_CU(launch("_Z10write_pastPfi", allocate(COUNT * 4, "a"), NULL));
    settle();
    AWAIT(cuCtxSynchronize() != CUDA_SUCCESS);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cufence_malloc(&none, 100, 0, NULL) == CUFENCE_ERROR_FAULTED);
    CHECK(cufence_fault_count() == 1); /* the access that made it real is not reported */
}

STORY(goes_on_with_continue)
{
    float last = 0;
    start("on_fault=continue/0");
    char *buffer = allocate(COUNT * 4, "a");
    CHECK_CU(launch("_Z10write_pastPfi", buffer, NULL));
    settle();
    CHECK(cufence_fault_count() == 1);
    CHECK_CU(cuCtxSynchronize());
    CHECK_CU(cuMemcpyDtoH(&last, (CUdeviceptr)(uintptr_t)(buffer + (COUNT - 1) * 4), 4));
    CHECK(last == 1.0f); /* what it stored in bounds has landed */
    CHECK_CU(launch("_Z10write_pastPfi", buffer, NULL));
    settle();
    CHECK(cufence_fault_count() == 2);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void ends_with_own_status(void)
{
    ends_without_a_look();
    exit(7);
}

static void ends_with_chosen_status(void)
{
    start("on_fault=error/42");
    CHECK_CU(launch("_Z10write_pastPfi", allocate(COUNT * 4, "a"), NULL));
}

static int is_registered; /* atomic: the exit handler below */

static void CUDA_CB nap(void *unused)
{
    AWAIT(__atomic_load_n(&is_registered, __ATOMIC_ACQUIRE));
    usleep(100000);
}

static void expect_the_report(void)
{
    CHECK(cufence_fault_count() == 1);
}

/* The driver's debugger registers handlers of its own at a fault, and they run before those that were there before. */
STORY(reports_before_any_exit_handler_runs)
{
    start("on_fault=error/0");
    char *buffer = allocate(COUNT * 4, "a");
    CHECK_CU(cuLaunchHostFunc(NULL, nap, NULL));
    CHECK_CU(launch("_Z10write_pastPfi", buffer, NULL));
    CHECK(cufence_fault_count() == 0);
    CHECK(atexit(expect_the_report) == 0);
    __atomic_store_n(&is_registered, 1, __ATOMIC_RELEASE);
}

STORY(a_damaged_dump_is_told_too)
{
    char file[1024] = "", text[1024];
    size_t size = sizeof file;
    cufence_set_fault_handler(handler, &seen);
    start("on_fault=continue/0");
    CHECK_CU(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, file, &size));
    int fifo = open(file, O_WRONLY);
    CHECK(write(fifo, "no dump", 7) == 7);
    close(fifo);
    settle();
    CHECK(cufence_fault_count() == 1 && seen.calls == 1 && strcmp(seen.kind, "unexplained") == 0 && !seen.has_address);
    CHECK_OK(cufence_last_report(text, &(size_t){sizeof text}));
    CHECK(strstr(text, "unexplained fault on the GPU\n"));
    CHECK(strstr(text, "  reason     its core dump (7 bytes) cannot be read: "));
    CHECK_OK(cufence_last_report_json(text, &(size_t){sizeof text}));
    CHECK(strstr(text, "\"kind\":\"unexplained\"") && strstr(text, "\"reason\":\"its core dump (7 bytes) cannot be read: "));
}

STORY(other_stream_goes_on)
{
    static uint32_t flag;
    CUstream busy, faulty;
    cufence_set_fault_handler(handler, &seen);
    start("on_fault=continue/0");
    CHECK_CU(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    CHECK_CU(cuStreamCreate(&faulty, CU_STREAM_NON_BLOCKING));
    spin_on(module, busy, &flag);
    CHECK_CU(launch("_Z10write_pastPfi", allocate(COUNT * 4, "a"), faulty));
    AWAIT(cufence_fault_count());
    CHECK(cufence_fault_count() == 1 && cuStreamQuery(busy) == CUDA_ERROR_NOT_READY);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK_CU(cuStreamSynchronize(busy));
}

static void faults_twice_in_one_place(void)
{
    start("on_fault=continue/0");
    char *buffer = allocate(COUNT * 4, "weights");
    for (int i = 0; i < 2; i++) {
        CHECK_CU(launch("_Z10write_pastPfi", buffer, NULL));
        settle();
    }
    CHECK(cufence_fault_count() == 2);
}

static void without_dumps(void)
{
    start("explain=off");
    CHECK_CU(launch("_Z10write_pastPfi", allocate(COUNT * 4, "a"), NULL));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- what waits for reports while the program goes on ---- */

/* Signals that the program has blocked stay pending, whatever threads there are. */
STORY(reads_its_signals)
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

STORY(a_handler_that_waits_for_itself)
{
    cufence_set_fault_handler(waits_for_itself, NULL);
    start("on_fault=error/0");
    fault_here();
    settle();
    CHECK(cufence_fault_count() == 1);
    CHECK(waited == CUFENCE_ERROR_UNSUPPORTED);
}

static void ends_the_process(const cufence_fault *fault, void *user)
{
    exit(5);
}

STORY_OF(a_handler_that_exits, 5, NULL, NULL)
{
    cufence_set_fault_handler(ends_the_process, NULL);
    start("on_fault=error/0");
    fault_here();
    settle();
    CHECK(cufence_fault_count() == 1);
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
STORY_OF(a_handler_that_exits_in_an_exit, 86, NULL, NULL)
{
    pthread_t thread;
    cufence_set_fault_handler(ends_it_first, NULL);
    start("");
    fault_here();
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

/* The process ends once a report would have been made. */
STORY(a_handler_that_hangs)
{
    cufence_set_fault_handler(never_returns, NULL);
    start("on_fault=error/0,wait_ms=0/100");
    fault_here();
    AWAIT(__atomic_load_n(&is_in_handler, __ATOMIC_ACQUIRE));
}

/* What a synchronisation of PyTorch's calls. The 5 s that it waited are far above what the rest may take. */
STORY(the_other_device_is_healthy)
{
    setenv("CUFENCE_SIM", "devices=2", 1);
    start("on_fault=error/0");
    CUcontext healthy = use_device(1);
    void *pointer = NULL;
    CHECK_OK(cufence_malloc(&pointer, 100, -1, NULL));
    CUcontext faulted = use_device(0);
    fault_here();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
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
    fault_here();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    CHECK(cufence_fault_count() == 2);
    CHECK(cufence_torch_before_sync(CUFENCE_TORCH_SYNC_DEVICE, 0) == 1);
}

/* ---- what the parent sees ---- */

TEST(test_exit_status)
{
    expect_status(ends_without_a_look, 86, 1, NULL);
    expect_status(ends_with_own_status, 7, 1, NULL);
    expect_status(ends_with_chosen_status, 42, 1, NULL);
    expect_status(without_dumps, 86, 0, "without a core dump, nothing more is known");
}

TEST(test_the_same_again_is_counted)
{
    expect_status(faults_twice_in_one_place, 0, 1, "findings reported above occurred 1 more time");
}

TEST_CONCURRENTLY
