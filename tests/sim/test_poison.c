/* Poison on the simulated device: bytes of a buffer that nobody may use. */
#include "heap/slack/poison.h"
#include "pokes.h"

#include <pthread.h>
#include <sys/wait.h>

#define ROWS 8u
#define ROW 1000u

static char *pool(CUstream stream)
{
    char *buffer = allocate(ROWS * ROW, stream);
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffer, 0, ROWS * ROW, stream));
    return buffer;
}

static uint64_t poisoned(const char *buffer)
{
    return poison_bytes((uintptr_t)buffer, (uintptr_t)buffer + ROWS * ROW);
}

CLEAN(is_nan_and_no_index)
{
    float values[ROW / 4];
    start("");
    char *buffer = pool(NULL);
    CHECK_OK(cufence_poison(buffer + ROW, ROW, NULL));
    CHECK_CU(cuMemcpyDtoH(values, (CUdeviceptr)(uintptr_t)(buffer + ROW), ROW));
    for (unsigned i = 0; i < ROW / 4; i++)
        CHECK(values[i] != values[i] && ((int32_t *)values)[i] > 2000000000);
    CHECK(sum_at(buffer, ROW, NULL) == 0); /* its neighbours are what they were */
    CHECK(sum_at(buffer + 2 * ROW, ROW, NULL) == 0);
}

/* As users of AddressSanitizer do: all at first, and then any parts of it. */
CLEAN(any_part_can_be_unpoisoned_and_poisoned_again)
{
    start("");
    char *buffer = pool(NULL);
    CHECK_OK(cufence_poison(buffer, ROWS * ROW, NULL));
    CHECK_OK(cufence_unpoison(buffer + 3 * ROW + 1, ROW, NULL)); /* cuts the piece in two */
    CHECK(poisoned(buffer) == 7 * ROW);
    write_at(buffer + 3 * ROW + 1, ROW, 1, NULL);
    CHECK_OK(cufence_poison(buffer + 3 * ROW, 500, NULL)); /* over one end of the gap */
    CHECK(poisoned(buffer) == 7 * ROW + 499);
    CHECK_OK(cufence_unpoison(buffer + ROW, 5 * ROW, NULL)); /* three pieces */
    CHECK(poisoned(buffer) == 3 * ROW);
    write_at(buffer + ROW, 5 * ROW, 2, NULL);
    CHECK(found_by_check(0) == 0);
    CHECK(cufence_unpoison(buffer + ROW, 5 * ROW, NULL) == CUFENCE_ERROR_NOT_FOUND);
    release(buffer, NULL);
    CHECK(poisoned(buffer) == 0);
    CHECK(found_by_check(0) == 0 && poison_unchecked == 0);
}

CLEAN(bad_input)
{
    CUcontext other_context;
    start("");
    char *buffer = pool(NULL), other[8];
    CHECK(cufence_poison(other, 8, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(cufence_poison(buffer, 0, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(cufence_poison(buffer + 1, ROWS * ROW, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(cufence_error_detail(), "8000 bytes from 0x") && strstr(cufence_error_detail(), "are not in one live buffer"));
    CHECK(cufence_poison(buffer, SIZE_MAX, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(cufence_unpoison(buffer, ROW, NULL) == CUFENCE_ERROR_NOT_FOUND);
    CHECK(strstr(cufence_error_detail(), "none of the 1000 bytes"));
    CHECK_CU(cuCtxCreate(&other_context, NULL, 0, 0));
    CUstream foreign = new_stream();
    CHECK(cufence_poison(buffer, ROW, foreign) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(cufence_error_detail(), "context of buffer #1"));
    CHECK_CU(cuCtxDestroy(other_context));
}

/* The correct twin: rows are written while they are in use, on one stream and on two, long before the device gets there. */
CLEAN(rows_in_use)
{
    uint32_t flag = 0;
    start("");
    CUstream first = new_stream(), second = new_stream();
    CUevent event;
    CHECK_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    char *buffer = pool(first);
    CHECK_OK(cufence_poison(buffer, ROWS * ROW, first));
    CHECK_CU(cuEventRecord(event, first));
    CHECK_CU(cuStreamWaitEvent(second, event, 0));
    spin(first, &flag);
    for (int turn = 0; turn < 20; turn++) {
        CUstream on = turn & 1 ? second : first;
        for (unsigned row = 0; row < ROWS; row++) {
            CHECK_OK(cufence_unpoison(buffer + row * ROW, ROW, on));
            write_at(buffer + row * ROW, ROW, turn, on);
            CHECK_CU(cuEventRecord(event, on));
            CHECK_OK(cufence_poison(buffer + row * ROW, ROW, on));
            CHECK_CU(cuStreamWaitEvent(on == first ? second : first, event, 0)); /* it need not know of our fill */
        }
    }
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK(found_by_check(0) == 0);
    release(buffer, first);
    CHECK(found_by_check(0) == 0 && poison_unchecked == 0);
}

FINDS(a_write_is_found_when_the_bytes_are_unpoisoned,
      "WRITE to poisoned memory: 4 bytes changed, from byte 12 of the 1000 poisoned ones on, in buffer #1 \"cache\"")
{
    char text[4096];
    start("");
    CHECK_OK(cufence_label_push("cache"));
    CUstream stream = new_stream();
    char *buffer = pool(stream);
    CHECK_OK(cufence_poison(buffer + 3 * ROW, ROW, stream));
    write_at(buffer + 3 * ROW + 12, 4, 0x3f, stream);
    CHECK_OK(cufence_unpoison(buffer + 3 * ROW, ROW, stream));
    write_at(buffer + 3 * ROW, ROW, 1, stream);
    AWAIT(cufence_fault_count());
    CHECK(cufence_fault_count() == 1);
    CHECK_OK(cufence_last_report(text, &(size_t){sizeof text}));
    CHECK(strstr(text, "3f 3f 3f 3f") && strstr(text, "poisoned at"));
    CHECK(found_by_check(0) == 0);
}

/* Another thread's report is finished when a check returns. */
FINDS(a_report_is_awaited, "4 bytes changed, from byte 12 of the 1000 poisoned ones on, in buffer #1")
{
    start("");
    cufence_set_fault_handler(tell_slowly, NULL);
    char *buffer = pool(NULL);
    CHECK_OK(cufence_poison(buffer + 3 * ROW, ROW, NULL));
    write_at(buffer + 3 * ROW + 12, 4, 0x3f, NULL);
    CHECK_OK(cufence_unpoison(buffer + 3 * ROW, ROW, NULL));
    check_while_told();
}

FINDS(a_write_is_found_before_the_context_ends, "4 bytes changed, from byte 12 of the 1000 poisoned ones on, in buffer #1")
{
    CUcontext own;
    start("slack=off");
    CHECK_CU(cuCtxCreate(&own, NULL, 0, 0));
    char *buffer = pool(NULL);
    CHECK_OK(cufence_poison(buffer + 3 * ROW, ROW, NULL));
    write_at(buffer + 3 * ROW + 12, 4, 0x3f, NULL);
    CHECK_OK(cufence_context_gone(own));
    CHECK(cufence_fault_count() == 1);
    CHECK_CU(cuCtxDestroy(own));
}

FINDS(a_write_is_found_by_a_check, "1 byte changed, from byte 999 of the 1000 poisoned ones on, in buffer #1")
{
    start("slack=off");
    char *buffer = pool(NULL);
    CHECK_OK(cufence_poison(buffer + 7 * ROW, ROW, NULL));
    CHECK(found_by_check(0) == 0);
    write_at(buffer + 7 * ROW + 999, 1, 1, NULL);
    CHECK(found_by_check(0) == 1);
    CHECK(found_by_check(0) == 0); /* the pattern is there again */
    CHECK_OK(cufence_unpoison(buffer + 7 * ROW, ROW, NULL));
    CHECK(found_by_check(-1) == 0);
}

FINDS(a_write_is_found_when_the_buffer_is_freed, "8 bytes changed, from byte 0 of the 1000 poisoned ones on, in buffer #1")
{
    CUstream stream = start_with_stream("");
    char *buffer = pool(stream);
    CHECK_OK(cufence_poison(buffer + ROW, ROW, stream));
    write_at(buffer + ROW, 8, 1, stream);
    release(buffer, stream);
    AWAIT(cufence_fault_count());
}

FINDS(a_write_is_found_at_exit, "2 bytes changed, from byte 5 of the 1000 poisoned ones on, in buffer #1")
{
    start("");
    char *buffer = pool(NULL);
    CHECK_OK(cufence_poison(buffer + 2 * ROW, ROW, NULL));
    write_at(buffer + 2 * ROW + 5, 2, 1, NULL);
}

/* More than one job, and a write across its parts. */
FINDS(a_large_piece, "200000 bytes changed, from byte 100000 of the 3145733 poisoned ones on, in buffer #1")
{
    start("");
    char *buffer = allocate(3 * MIB + 5, NULL);
    CHECK_OK(cufence_poison(buffer, 3 * MIB + 5, NULL));
    CHECK(found_by_check(0) == 0);
    write_at(buffer + 100000, 200000, 1, NULL);
    CHECK_OK(cufence_unpoison(buffer, 3 * MIB + 5, NULL));
    AWAIT(cufence_fault_count());
}

/* Nothing can be submitted, and bytes that are unpoisoned are not checked. */
CLEAN(a_capture)
{
    CUgraph graph;
    CUgraphExec executable;
    CUstream stream = start_with_stream("");
    char *buffer = pool(stream);
    CHECK_OK(cufence_poison(buffer, ROW, stream));
    CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_OK(cufence_unpoison(buffer, ROW, stream));
    CHECK(cufence_poison(buffer + ROW, ROW, stream) == CUFENCE_ERROR_UNSUPPORTED);
    CHECK(strstr(cufence_error_detail(), "is capturing"));
    write_at(buffer, 2 * ROW, 1, stream);
    CHECK_CU(cuStreamEndCapture(stream, &graph));
    CHECK_CU(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK_CU(cuGraphLaunch(executable, stream));
    CHECK(found_by_check(0) == 0);
    CHECK(poison_unchecked == ROW);
}

/* What a thread writes into bytes that it has unpoisoned is neither found nor overwritten by another thread's check. */
static int are_writing; /* atomic */

static void *use_and_look(void *row)
{
    CHECK_CU(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    for (int i = 0; i < 1000; i++) {
        CHECK_OK(cufence_poison(row, ROW, stream));
        usleep((useconds_t)i % 100);
        CHECK_OK(cufence_unpoison(row, ROW, stream));
        write_at(row, ROW, 3, stream);
        CHECK(sum_at(row, ROW, stream) == 3 * ROW);
    }
    __atomic_sub_fetch(&are_writing, 1, __ATOMIC_RELEASE);
    return NULL;
}

CLEAN(checks_beside_threads)
{
    pthread_t all[2];
    start("");
    char *buffer = pool(NULL);
    CHECK_CU(cuCtxSynchronize());
    function("poke");
    are_writing = 2;
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_create(&all[i], NULL, use_and_look, buffer + i * ROW) == 0);
    while (__atomic_load_n(&are_writing, __ATOMIC_ACQUIRE))
        CHECK(found_by_check(0) == 0);
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

/* Two threads poison bytes that overlap, on one stream: each byte counts once, and none is lost. */
static void *poison_often(void *first)
{
    CHECK_CU(cuCtxSetCurrent(context));
    for (int i = 0; i < 300; i++)
        CHECK_OK(cufence_poison(first, 2 * ROW, NULL));
    return NULL;
}

CLEAN(threads_that_overlap)
{
    pthread_t all[2];
    start("");
    char *buffer = pool(NULL);
    CHECK_CU(cuCtxSynchronize());
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_create(&all[i], NULL, poison_often, buffer + i * ROW) == 0);
    for (size_t i = 0; i < 2; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
    CHECK(poisoned(buffer) == 3 * ROW);
    CHECK_OK(cufence_unpoison(buffer, 3 * ROW, NULL));
    CHECK(poisoned(buffer) == 0);
    CHECK(found_by_check(0) == 0);
}

/* ---- what may go wrong ---- */

CLEAN(odd_ranges)
{
    unsigned char bytes[16];
    start("");
    char *buffer = pool(NULL);
    for (unsigned from = 0; from < 4; from++) {
        for (unsigned length = 1; length < 6; length++) {
            CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffer, 0, 16, NULL));
            CHECK_OK(cufence_poison(buffer + from, length, NULL));
            CHECK_CU(cuMemcpyDtoH(bytes, (CUdeviceptr)(uintptr_t)buffer, 16));
            for (unsigned i = 0; i < 16; i++)
                CHECK(bytes[i] == (i < from || i >= from + length ? 0 : (uintptr_t)(buffer + i) & 1 ? 0x7f : 0xff));
            CHECK(found_by_check(0) == 0);
            CHECK_OK(cufence_unpoison(buffer, 16, NULL)); /* more than that is poisoned */
            CHECK(poisoned(buffer) == 0);
        }
    }
    CHECK_OK(cufence_poison(buffer + ROWS * ROW - 1, 1, NULL)); /* up to the guard */
    CHECK(found_by_check(0) == 0);
}

FINDS(what_is_poisoned_again_is_checked_before, "3 bytes changed, from byte 500 of the 1000 poisoned ones on, in buffer #1")
{
    start("");
    char *buffer = pool(NULL);
    CHECK_OK(cufence_poison(buffer, ROW, NULL));
    CHECK_OK(cufence_poison(buffer, ROW, NULL));
    CHECK(found_by_check(0) == 0 && poisoned(buffer) == ROW);
    write_at(buffer + 500, 3, 1, NULL);
    CHECK_OK(cufence_poison(buffer + 100, 2 * ROW, NULL)); /* over that */
    AWAIT(cufence_fault_count());
    CHECK(found_by_check(0) == 0 && cufence_fault_count() == 1);
    CHECK(poisoned(buffer) == 2 * ROW + 100);
}

CLEAN(memory_that_is_not_guarded)
{
    CUdeviceptr managed;
    start("skip=smaller:1K");
    char *buffer = pool(NULL), *small = allocate(100, NULL);
    CHECK_CU(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    void *const pointers[] = {NULL, &managed, (void *)(uintptr_t)managed, small, buffer - 1, buffer + ROWS * ROW, (void *)-1};
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        CHECK(cufence_poison(pointers[i], 8, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
        CHECK(cufence_unpoison(pointers[i], 8, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
        CHECK(strstr(cufence_error_detail(), "are not in one live buffer that cufence guards"));
    }
    CHECK_OK(cufence_poison(buffer, ROW, NULL));
    release(buffer, NULL);
    CHECK(cufence_poison(buffer, ROW, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(cufence_unpoison(buffer, ROW, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(found_by_check(0) == 0);
}

/* Those beside it have patterns of their own around them. */
CLEAN(small_ones_that_share_a_page)
{
    char *small[8];
    start("small=pack");
    for (int i = 0; i < 8; i++)
        small[i] = allocate(40 + (size_t)i, NULL);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 8; i++)
            CHECK_OK(cufence_poison(small[i], 40 + (size_t)i, NULL));
        CHECK(found_by_check(0) == 0);
        for (int i = turn; i < 8; i += 2) {
            release(small[i], NULL);
            small[i] = allocate(40 + (size_t)i, NULL);
            CHECK(poison_bytes((uintptr_t)small[i], (uintptr_t)small[i] + 40) == 0);
            write_at(small[i], 40 + (size_t)i, turn, NULL);
        }
        CHECK(found_by_check(0) == 0);
    }
}

/* The next buffer has the memory before the check is over. */
FINDS(of_a_buffer_whose_memory_has_another,
      "WRITE to poisoned memory: 8 bytes changed, from byte 4 of the 1000 poisoned ones on, in buffer #1\n")
{
    uint32_t flag = 0;
    char text[4096];
    CUstream stream = start_with_stream("uaf=off");
    char *buffer = pool(stream);
    spin(stream, &flag);
    CHECK_OK(cufence_poison(buffer + 3 * ROW, ROW, stream));
    write_at(buffer + 3 * ROW + 4, 8, 1, stream);
    release(buffer, stream);
    char *next = allocate(ROWS * ROW - 64, stream);
    CHECK(next == buffer + 64 && poisoned(buffer) == 0);
    write_at(next, ROWS * ROW - 64, 2, stream);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    AWAIT(cufence_fault_count());
    CHECK_OK(cufence_last_report(text, &(size_t){sizeof text}));
    CHECK(strstr(text, "#1, 8000 bytes") && strstr(text, "1000 bytes from byte 3000 of the buffer on"));
    CHECK(found_by_check(0) == 0 && cufence_fault_count() == 1);
}

/* Also the very first time, when kernels are loaded. */
CLEAN(a_capture_of_another_stream)
{
    CUgraph graph;
    CUstreamCaptureStatus status;
    CUstream stream = start_with_stream(""), captured = new_stream();
    char *buffer = pool(stream);
    function("poke");
    CHECK_CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_OK(cufence_poison(buffer, ROW, stream));
    CHECK_OK(cufence_poison(buffer, ROW, stream));
    CHECK(cufence_poison(buffer, 2 * ROW, captured) == CUFENCE_ERROR_UNSUPPORTED && poisoned(buffer) == ROW);
    CHECK_OK(cufence_unpoison(buffer, ROW, stream));
    CHECK_CU(cuStreamIsCapturing(captured, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    write_at(buffer, ROW, 1, captured);
    CHECK_CU(cuStreamEndCapture(captured, &graph));
    CHECK(found_by_check(0) == 0 && poison_unchecked == 0);
}

/* A stream that captures waits for nothing. */
CLEAN(a_fill_that_is_not_over)
{
    uint32_t flag = 0;
    CUgraph graph;
    CUstream stream = start_with_stream(""), captured = new_stream();
    char *buffer = pool(stream);
    function("poke");
    spin(stream, &flag);
    CHECK_OK(cufence_poison(buffer, ROW, stream));
    CHECK_CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cufence_unpoison(buffer, ROW, captured) == CUFENCE_ERROR_TIMEOUT && poisoned(buffer) == ROW);
    CHECK(strstr(cufence_error_detail(), "cannot wait for the one on which"));
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK_OK(cufence_unpoison(buffer, ROW, captured));
    CHECK_CU(cuStreamEndCapture(captured, &graph));
    CHECK(found_by_check(0) == 0 && poison_unchecked == ROW);
}

CLEAN(a_stream_that_has_ended)
{
    CUstream first = start_with_stream(""), second = new_stream();
    char *buffer = pool(first);
    CHECK_OK(cufence_poison(buffer, ROW, first));
    CHECK_CU(cuStreamSynchronize(first));
    CHECK_OK(cufence_stream_gone(first));
    CHECK_CU(cuStreamDestroy(first));
    CHECK_OK(cufence_poison(buffer + 500, ROW, second));
    CHECK_OK(cufence_unpoison(buffer, 2 * ROW, second));
    write_at(buffer, ROW, 1, second);
    CHECK(found_by_check(0) == 0 && poison_unchecked == 0);
}

CLEAN(another_device)
{
    setenv("CUFENCE_SIM", "devices=2", 1);
    start("");
    char *buffer = pool(NULL);
    use_device(1);
    CUstream far = new_stream();
    CHECK(cufence_poison(buffer, ROW, far) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK_OK(cufence_poison(buffer, ROW, NULL)); /* the default stream of the buffer's own context */
    CHECK(found_by_check(0) == 0);
    CHECK_OK(cufence_unpoison(buffer, ROW, NULL));
    CHECK(cufence_unpoison(buffer, ROW, far) == CUFENCE_ERROR_INVALID_ARGUMENT);
}

FINDS(one_of_thousands, "1 byte changed, from byte 0 of the 100 poisoned ones on, in buffer #1")
{
    enum { COUNT = 4000, PITCH = 128 };
    CUstream stream = start_with_stream("");
    char *buffer = allocate(COUNT * PITCH, stream);
    for (unsigned i = 0; i < COUNT; i++) /* not in their order */
        CHECK_OK(cufence_poison(buffer + i * 1777 % COUNT * PITCH, 100, stream));
    CHECK(poison_bytes((uintptr_t)buffer, (uintptr_t)buffer + COUNT * PITCH) == COUNT * 100);
    write_at(buffer + 2345 * PITCH, 1, 1, stream);
    write_at(buffer + 2345 * PITCH + 100, 28, 1, stream);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_OK(cufence_unpoison(buffer + i * 1999 % COUNT * PITCH, 100, stream));
    AWAIT(cufence_fault_count());
    CHECK(found_by_check(0) == 0 && cufence_fault_count() == 1);
    CHECK(poison_bytes((uintptr_t)buffer, (uintptr_t)buffer + COUNT * PITCH) == 0);
}

/* CUDA is of no use to it, and cufence says so. */
CLEAN(a_child)
{
    start("");
    char *buffer = pool(NULL);
    CHECK_OK(cufence_poison(buffer, ROW, NULL));
    pid_t child = fork();
    if (!child) {
        alarm(20);
        _exit(cufence_poison(buffer + ROW, ROW, NULL) == CUFENCE_OK || cufence_unpoison(buffer, ROW, NULL) == CUFENCE_OK);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(found_by_check(0) == 0);
    CHECK_OK(cufence_unpoison(buffer, ROW, NULL));
}

TEST_CONCURRENTLY
