/* Slack watch on the simulated device: writes beside buffers that no hardware sees, and what is not one; and what fill= puts
 * into buffers. */
#include "base/clock.h"
#include "heap/block/books.h"
#include "pokes.h"

#include <dlfcn.h>

/* ---- one write ---- */

FINDS(finds_one_byte_before, "slack WRITE: 1 byte changed, 1 byte before the start of buffer #1")
{
    start("slack=on");
    char *buffer = allocate(1000, NULL);
    write_at(buffer - 1, 1, 0, NULL);
    CHECK(found_by_check(0) == 1);
    CHECK(found_by_check(0) == 0); /* it was reported once, and the pattern is there again */
    write_at(buffer - 1, 1, 0, NULL);
    CHECK(found_by_check(-1) == 1);
    CHECK(cufence_fault_count() == 2);
}

/* Writes that a check finds, or, with `sides` 0, the end of the program. */
#define FINDS_A_WRITE(name, options, size, from, bytes, value, sides, text)                                                    \
    FINDS(name, text)                                                                                                          \
    {                                                                                                                          \
        start(options);                                                                                                        \
        write_at(allocate(size, NULL) + (from), bytes, value, NULL);                                                           \
        CHECK(!(sides) || found_by_check(0) == (sides));                                                                       \
    }
FINDS_A_WRITE(finds_the_tail, "slack=on,align=16", 1000, 0, 1003, 7, 1, "3 bytes changed, 0 bytes past the end of buffer #1")
FINDS_A_WRITE(finds_both_sides, "slack=on", 1000, -8, 1016, 7, 2, "8 bytes changed, 0 bytes past the end of buffer #1")
FINDS_A_WRITE(finds_it_at_exit, "slack=on", 1000, -4, 4, 0, 0, "4 bytes changed, 4 bytes before the start of buffer #1")

FINDS(looks_as_far_as_it_says, "1 byte changed, 4096 bytes before the start of buffer #1")
{
    start("slack=on");
    char *buffer = allocate(1000, NULL);
    write_at(buffer - 4097, 1, 7, NULL);
    CHECK(found_by_check(0) == 0);
    write_at(buffer - 4096, 1, 7, NULL);
    CHECK(found_by_check(0) == 1);
}

FINDS(finds_a_freed_one_at_exit, "4 bytes changed, 0 bytes past the end of buffer #1")
{
    CUstream stream = start_with_stream("slack=on");
    char *buffer = allocate(1000, stream);
    write_at(buffer + 1000, 4, 0, stream);
    release(buffer, stream);
}

/* The driver loads its debugger when it begins a dump, and a launch then may crash in it. */
FINDS(waits_for_the_debugger_once, "1 byte changed, 1 byte before the start of buffer #1")
{
    start("slack=on");
    char *buffer = allocate(1000, NULL);
    write_at(buffer - 1, 1, 0, NULL);
    CHECK(dlopen(PROGRAMS_FOLDER "/libcudadebugger.so.1", RTLD_NOW) != NULL);
    uint64_t before = monotonic_ns();
    CHECK(found_by_check(0) == 1);
    CHECK(monotonic_ns() - before > 400000000);
}

/* uaf=adaptive exchanges blocks that lie idle, but not before they are checked. */
FINDS(finds_an_idle_one, "4 bytes changed, 0 bytes past the end of buffer #1")
{
    tune("uaf_share=100");
    CUstream stream = start_with_stream("slack=on,stacks=python");
    char *buffer = allocate(1000, stream);
    write_at(buffer + 1000, 4, 0, stream);
    release(buffer, stream);
    usleep(300000);
    CHECK(found_by_check(0) == 1);
}

/* ---- memory that a report needs ---- */

TEST(at_most_eight_mappings_are_kept)
{
    static struct books books;
    for (uint64_t i = 1; i <= KEPT_MOST; i++)
        assert_true(books_keep(&books, i));
    assert_false(books_keep(&books, 9));
    assert_true(books_keep(&books, 3));
    books_let_go(&books, 3);
    assert_false(books_keeps(&books, 3));
    assert_true(books_keep(&books, 9) && books_keeps(&books, 9));
    books_let_go(&books, 0);
    assert_false(books_keeps(&books, 0));
}

static int is_reporting, may_end; /* atomic */

static void hold_report(const cufence_fault *fault, void *unused)
{
    (void)fault;
    (void)unused;
    __atomic_store_n(&is_reporting, 1, __ATOMIC_SEQ_CST);
    for (int waited = 0; waited < 10000 && !__atomic_load_n(&may_end, __ATOMIC_SEQ_CST); waited++)
        usleep(1000);
}

/* Until then no other buffer has it; afterwards the next one does. */
FINDS(is_used_again_once_it_is_reported, "4 bytes changed, 0 bytes past the end of buffer #1")
{
    start("slack=on,uaf=off");
    cufence_set_fault_handler(hold_report, NULL);
    char *buffer = allocate(1000, NULL);
    write_at(buffer + 1000, 4, 0, NULL);
    release(buffer, NULL);
    for (int waited = 0; waited < 10000 && !__atomic_load_n(&is_reporting, __ATOMIC_SEQ_CST); waited++)
        usleep(1000);
    CHECK(allocate(1000, NULL) != buffer);
    __atomic_store_n(&may_end, 1, __ATOMIC_SEQ_CST);
    usleep(300000);
    CHECK(allocate(1000, NULL) == buffer);
}

static void *check_aside(void *unused)
{
    CHECK(found_by_check(0) == 1);
    return unused;
}

/* Other memory is retired late meanwhile, but not without a limit. */
FINDS(retires_many_although_it_reports, "4 bytes changed, 0 bytes past the end of buffer #1")
{
    pthread_t thread;
    CUstream stream = start_with_stream("slack=on,uaf=strict");
    cufence_set_fault_handler(hold_report, NULL);
    write_at(allocate(1000, NULL) + 1000, 4, 0, NULL);
    CHECK(pthread_create(&thread, NULL, check_aside, NULL) == 0);
    AWAIT(__atomic_load_n(&is_reporting, __ATOMIC_SEQ_CST));
    uint64_t before = stats().retired_mappings;
    for (int i = 0; i < 400; i++)
        release(allocate(3 * MIB, stream), stream);
    usleep(300000);
    CHECK(stats().retired_mappings > before + 50);
    __atomic_store_n(&may_end, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
}

/* ---- reuse ---- */

/* The check comes behind the free: another thread of cufence's reports it. */
static void await_fault(void)
{
    AWAIT(cufence_fault_count() >= 1);
    CHECK(cufence_fault_count() == 1);
}

/* Another thread's report is finished when a check returns. */
FINDS(waits_for_a_report_behind_the_free, "1 byte changed, 1 byte before the start of buffer #1")
{
    tune("slack_every=1");
    start("slack=on");
    cufence_set_fault_handler(tell_slowly, NULL);
    CUstream stream = new_stream();
    char *buffer = allocate(1000, stream);
    write_at(buffer - 1, 1, 0, stream);
    release(buffer, stream);
    check_while_told();
}

FINDS(reuse_with_the_same_size, "1 byte changed, 1 byte before the start of buffer #")
{
    tune("slack_every=8");
    CUstream stream = start_with_stream("slack=on,uaf=off");
    char *buffer = allocate(1000, stream), *first = buffer;
    uint64_t launches = cusim_call_count("cuLaunchKernel");
    for (int i = 0; i < 800; i++) { /* what is launched out of turn at the beginning is used up */
        release(buffer, stream);
        buffer = allocate(1000, stream);
        CHECK(buffer == first);
    }
    CHECK(cusim_call_count("cuLaunchKernel") - launches < 800 / 4);
    write_at(buffer - 1, 1, 0, stream);
    release(buffer, stream);
    CHECK(allocate(1000, stream) == first);
    CHECK(found_by_check(0) <= 1); /* 0: the background thread was faster */
    await_fault();
}

/* The old slack is checked before the new buffer is written there. */
FINDS(reuse_with_another_size, "1 byte changed, 1 byte before the start of buffer #1")
{
    CUstream stream = start_with_stream("slack=on");
    char *small = allocate(1000, stream);
    write_at(small - 1, 1, 0, stream);
    release(small, stream);
    char *large = allocate(5000, stream);
    CHECK(large + 5000 - (5000 - 4992) == small + 1000 - (1000 - 992)); /* the same slot */
    write_at(large, 5000, 0, stream);
    await_fault();
    write_at(large - 1, 1, 0, stream);
    CHECK(found_by_check(0) == 1);
}

/* Without launches to spare, the check of a slot that is used again at once is left out, and nothing is found that is not
 * there. */
CLEAN(alternating_sizes)
{
    CUstream stream = start_with_stream("slack=on,say=verbose");
    uint64_t launches = cusim_call_count("cuLaunchKernel");
    for (size_t i = 0; i < 4000; i++) {
        size_t size = i % 2 ? 700 : 9000;
        void *pointer = allocate(size, stream);
        CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)pointer, 0, size, stream));
        release(pointer, stream);
    }
    launches = cusim_call_count("cuLaunchKernel") - launches;
    CHECK(launches < 4000 / 8);
    CHECK(found_by_check(0) == 0 && cufence_fault_count() == 0);
}

/* uaf=strict: a block whose check is late has its turn again, and counts once. */
CLEAN(retired_once)
{
    static uint32_t room;
    cufence_stats stats = {.struct_size = sizeof stats};
    tune("slack_every=1");
    CUstream stream = start_with_stream("slack=on,uaf=strict");
    char *buffer = allocate(3000, stream);
    CHECK_CU(cuCtxSynchronize());
    cusim_hold_own(&room);
    release(buffer, stream);
    usleep(300000); /* in which it has its turn again and again */
    CHECK_OK(cufence_get_stats(-1, &stats));
    CHECK(stats.frees == 1 && stats.tested_buffers == 0);
    __atomic_store_n(&room, 1, __ATOMIC_RELEASE);
    AWAIT(is_retired(buffer));
    CHECK_OK(cufence_get_stats(-1, &stats));
    CHECK(stats.frees == 1 && stats.tested_buffers == 1);
}

FINDS(many_buffers, "1 byte changed, 2 bytes before the start of buffer #")
{
    enum { COUNT = 700 };
    static char *buffers[COUNT];
    CUstream stream = start_with_stream("slack=on,guard=2M"); /* with ThreadSanitizer there is little address space */
    for (size_t i = 0; i < COUNT; i++)
        buffers[i] = allocate(100 + i, stream);
    CHECK(found_by_check(0) == 0); /* also writes the patterns that have been waiting for a launch */
    for (size_t i = 0; i < COUNT; i += 100)
        write_at(buffers[i] - 2, 1, 0, stream);
    CHECK(found_by_check(0) == COUNT / 100);
    for (size_t i = 0; i < COUNT; i++)
        release(buffers[i], stream);
    CHECK(found_by_check(0) == 0);
}

/* ---- streams ---- */

/* cuMemAlloc waits a moment for its pattern, not for a device that is busy; what it gave out before is counted. */
CLEAN(a_pattern_that_comes_late_is_counted)
{
    static uint32_t room;
    void *pointer = NULL;
    tune("slack_every=1");
    start("slack=on");
    release(allocate(64, NULL), NULL);
    const struct heap_request wanted = {.size = 1000, .context = context_current()};
    uint64_t late = UINT64_MAX, tries = 0; /* a busy machine may keep the device busy, too */
    for (; heap_slack_figures().late != late && tries < 7; tries++) {
        late = heap_slack_figures().late;
        CHECK_OK(heap_allocate(&pointer, &wanted, NULL));
    }
    CHECK(heap_slack_figures().late == late);
    cusim_hold_own(&room);
    CHECK_OK(heap_allocate(&pointer, &wanted, NULL));
    CHECK(heap_slack_figures().late == late + 1);
    __atomic_store_n(&room, 1, __ATOMIC_RELEASE);
    CHECK(found_by_check(0) == 0);
}

FINDS(recorded_streams, "1 byte changed, 3 bytes before the start of buffer #1")
{
    tune("slack_every=1");
    start("slack=on");
    CUstream stream = new_stream(), other = new_stream();
    char *buffer = allocate(1000, stream);
    CHECK_OK(cufence_record_stream(buffer, other));
    write_at(buffer - 3, 1, 0, stream);
    release(buffer, stream);
    CHECK(found_by_check(0) == 1);
}

FINDS(a_stream_that_ends, "1 byte changed, 1 byte before the start of buffer #1")
{
    CUstream stream = start_with_stream("slack=on");
    char *buffer = allocate(1000, stream);
    write_at(buffer - 1, 1, 0, stream);
    release(buffer, stream);
    CHECK_OK(cufence_stream_gone(stream)); /* launches what waits for it */
    CHECK_CU(cuStreamDestroy(stream));
    await_fault();
}

/* A free launches nothing: what is retired is checked together. */
FINDS(strict_checks_many_at_once, "1 byte changed, 1 byte before the start of buffer #41")
{
    enum { MANY = 64, MOST = MANY / 4 };
    char *buffers[MANY];
    uint32_t flag = 0;
    CUstream stream = start_with_stream("slack=on,uaf=strict");
    for (int i = 0; i < MANY; i++) {
        buffers[i] = allocate(1000, stream);
        CHECK_CU(cuStreamSynchronize(stream)); /* at most 32 launches of patterns are under way */
    }
    write_at(buffers[40] - 1, 1, 0, stream);
    spin(stream, &flag);
    uint64_t before = cusim_call_count("cuLaunchKernel");
    for (int i = 0; i < MANY; i++)
        release(buffers[i], stream);
    CHECK(cusim_call_count("cuLaunchKernel") == before);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    await_fault();
    AWAIT(is_retired(buffers[MANY - 1]));
    CHECK(is_retired(buffers[0]) && cusim_call_count("cuLaunchKernel") - before <= MOST);
}

FINDS(before_a_context_ends, "1 byte changed, 1 byte before the start of buffer #1")
{
    CUcontext own;
    start("slack=on");
    CHECK_CU(cuCtxCreate(&own, NULL, 0, 0));
    write_at(allocate(1000, NULL) - 1, 1, 0, NULL);
    CHECK_OK(cufence_context_gone(own));
    CHECK(cufence_fault_count() == 1);
    CHECK_CU(cuCtxDestroy(own));
}

/* ---- captures ---- */

CLEAN(a_capture)
{
    CUgraph graph;
    CUgraphExec executable;
    size_t nodes = 0;
    tune("slack_every=1");
    CUstream stream = start_with_stream("slack=on,fill=0x11/0x22");
    release(allocate(500, stream), stream);
    function("poke");
    CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    char *buffer = allocate(1000, stream), *other = allocate(300, stream);
    write_at(buffer, 1000, 0, stream);
    release(buffer, stream);
    CHECK_CU(cuStreamEndCapture(stream, &graph));
    CHECK_CU(cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == 1); /* the program's own */
    CHECK_CU(cuGraphInstantiate(&executable, graph, 0));
    CHECK_CU(cuGraphLaunch(executable, stream));
    CHECK_CU(cuStreamSynchronize(stream));
    release(other, stream);
    CHECK(found_by_check(0) == 0 && cufence_fault_count() == 0);
}

/* ---- what fails ---- */

CLEAN(a_driver_that_refuses)
{
    start("slack=on");
    cusim_fail_call("cuMemHostRegister", 1, CUDA_ERROR_NOT_SUPPORTED);
    char *buffer = allocate(1000, NULL);
    write_at(buffer - 1, 1, 0, NULL);
    CHECK(found_by_check(0) == 0);
}

CLEAN(a_launch_that_fails)
{
    start("slack=on");
    release(allocate(1000, NULL), NULL);
    cusim_fail_call("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    char *buffer = allocate(3000000, NULL); /* a new mapping, whose pattern is refused */
    CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)buffer, 0, 3000000));
    CHECK(found_by_check(0) == 0 && cufence_fault_count() == 0);
}

CLEAN(without_the_option)
{
    start("slack=off");
    CHECK(cufence_check(0, NULL) == CUFENCE_ERROR_UNSUPPORTED);
    CHECK(strstr(cufence_error_detail(), "slack=on") != NULL);
}

FINDS(after_a_fault, "out-of-bounds WRITE")
{
    start("slack=on,on_fault=error");
    char *buffer = allocate(1000, NULL);
    write_at(buffer + 4096, 1, 0, NULL);
    cuCtxSynchronize();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    CHECK(cufence_check(0, NULL) == CUFENCE_ERROR_FAULTED);
}

/* ---- what is in new buffers, and in freed ones (fill=) ---- */

CLEAN(fills)
{
    CUstream stream = start_with_stream("fill=0x11");
    char *buffer = allocate(1000, stream);
    CHECK(sum_at(buffer, 1000, stream) == 1000 * 0x11);
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffer, 0, 1000, stream));
    release(buffer, stream);
    CHECK(sum_at(allocate(1000, stream), 1000, stream) == 1000 * 0x11);
}

CLEAN(poisons)
{
    CUstream stream = start_with_stream("fill=off/0xee,slack=on");
    char *buffer = allocate(1000, stream);
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffer, 0, 1000, stream));
    CHECK(sum_at(buffer, 1000, stream) == 0);
    release(buffer, stream);
    CHECK(sum_at(buffer, 1000, stream) == 1000 * 0xee);
    CHECK(found_by_check(0) == 0);
}

TEST_CONCURRENTLY
