/* The memory of a second launch that is not cufence's, and where it lies in the new process. */
#include "second_launch.h"
#include "support/shell.h"

#include "base/clock.h"
#include "driver/driver.h"
#include "fault/surroundings.h"
#include "rerun/process/process_memory.h"
#include "rerun/rerun.h"

/* ---- memory of the host ---- */

HOST_TELLS(pinned, PAST_THE_END, THREAD_PAST_THE_END, WRITTEN_PAST_THE_END)
{
    start("explain=rerun");
    void *out = allocate(COUNT * 4), *pinned = pin(3 * sizeof(struct hosted));
    launch_all("write_hosted", (void *[]){&out, &pinned});
    cuCtxSynchronize();
}

/* Two blocks in one page of malloc's, each registered, and the second leads to the buffer. */
HOST_TELLS(registered, PAST_THE_END, THREAD_PAST_THE_END)
{
    start("explain=rerun");
    char *page = aligned_alloc(4096, 8192);
    CHECK(page);
    struct hosted *first = (struct hosted *)(page + 64), *second = (struct hosted *)(page + 4000);
    first->n = 8;
    *second = (struct hosted){allocate(COUNT * 4), COUNT};
    CHECK_CU(cuMemHostRegister(second, 128, 0));
    CHECK_CU(cuMemHostRegister(first, 256, 0));
    pinned_add(context_current(), (uint64_t)(uintptr_t)second, 128, PINNED_HOST);
    pinned_add(context_current(), (uint64_t)(uintptr_t)first, 256, PINNED_HOST);
    launch_all("write_by_hosted", (void *[]){&first, &second});
    cuCtxSynchronize();
}

static void *count(void *counted)
{
    for (volatile int *at = counted; cufence_fault_count() == 0;)
        ++*at;
    return NULL;
}

/* The host goes on writing to what the kernel has read, so the null pointer that is there now says nothing of the fault. */
HOST_TELLS(changed, "illegal memory access by a WRITE", "!null-pointer", "!thread \\(",
           "cannot have pinned host memory as the kernel found it, so")
{
    pthread_t thread;
    start("explain=rerun");
    struct hosted *pinned = pin(2 * sizeof *pinned);
    pinned->out = allocate(COUNT * 4);
    CHECK(pthread_create(&thread, NULL, count, &pinned[1].n) == 0);
    launch_all("take_hosted", (void *[]){&pinned->out, &pinned});
    cuCtxSynchronize();
    CHECK(pthread_join(thread, NULL) == 0);
}

static void launch_managed(const char *options)
{
    CUdeviceptr managed;
    start(options);
    void *out = allocate(COUNT * 4);
    CHECK_CU(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    pinned_add(context_current(), managed, 64, PINNED_MANAGED);
    ((struct hosted *)(uintptr_t)managed)->n = COUNT;
    launch_all("write_hosted", (void *[]){&out, &managed});
    cuCtxSynchronize();
}

TELLS(managed, "could not be launched again: an argument points to managed memory", "the warp had exited", "!re-run$")
{
    launch_managed("explain=rerun");
}

static void tell_saved(void)
{
    char options[128];
    snprintf(options, sizeof options, "keep=%s", folder);
    launch_managed(options);
}

/* Of a bundle that cannot be launched again only what explains the fault is left. */
TEST(test_saved)
{
    expect_said(tell_saved,
                PATTERNS("keep: nothing to replay: an argument points to managed memory", "kept for `cufence explain`"));
    SUCCEEDS("test \"$(cd fault-* && echo *)\" = 'dump.gz facts.json finding.json report.txt'");
}

TELLS(much, "an argument points to more than 64 MiB", "!re-run$")
{
    start("explain=rerun");
    void *out = allocate(COUNT * 4), *pinned = pin(((size_t)64 << 20) + 1);
    launch_all("write_hosted", (void *[]){&out, &pinned});
    cuCtxSynchronize();
}

/* Another thread freed it when the kernel had faulted. */
TELLS(unmapped, "an argument points to pinned host memory that")
{
    start("explain=rerun");
    void *out = allocate(COUNT * 4);
    uint64_t gone = 0x10010;
    pinned_add(context_current(), 0x10000, 4096, PINNED_HOST);
    launch_all("write_end", (void *[]){&gone, &out, &(int){COUNT}});
    cuCtxSynchronize();
}

/* Nothing of the new process is replaced, whatever a bundle says. */
TEST(test_taken)
{
    static char own[3 * 4096] = "mine";
    const struct bundle_buffer block = bundle_pinned_of((uint64_t)(uintptr_t)own + 4096, 8);
    struct rerun_input input = {.bundle = {.pinned = &block, .pinned_count = 1}};
    assert_int_equal(host_reserve(&input), CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE);
    assert_non_null(strstr(cufence_error_detail(), "its address is taken"));
    assert_string_equal(own, "mine");
}

/* ---- no room for copies ---- */

/* The second launch never works on the memory itself: another context of the program goes on with it. */
TELLS(full, "the warp had exited", "could not be launched again: neither the GPU nor the host has")
{
    CUcontext first, other;
    float mark = 0;
    start("explain=rerun");
    float *out = allocate(COUNT * 4);
    CHECK_CU(cuCtxGetCurrent(&first));
    CHECK_CU(cuCtxCreate(&other, NULL, 0, 0));
    CHECK_CU(cuCtxSetCurrent(first));
    setenv("CUFENCE_SIM", "fail=cuMemCreate:0:2", 1); /* this process has read it */
    launch("mark_process", out, COUNT);
    cuCtxSynchronize();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    CHECK_CU(cuCtxSetCurrent(other));
    CHECK_CU(cuMemcpyDtoH(&mark, (CUdeviceptr)(uintptr_t)out, sizeof mark));
    CHECK(mark == 1);
}

/* ---- addresses ---- */

#define MIB ((uint64_t)1 << 20)

/* Something of another's lies in the address space. */
static void tell_occupied(void)
{
    CUdeviceptr start, taken;
    CHECK_OK(driver_load());
    CHECK_CU(cuMemAddressReserve(&start, 128 * MIB, 0, 0, 0));
    CHECK_CU(cuMemAddressFree(start, 128 * MIB));
    CHECK_CU(cuMemAddressReserve(&taken, 2 * MIB, 0, start + 64 * MIB, 0));
    CHECK(taken == start + 64 * MIB);
    struct rerun_input input = {.bundle = {.arena_start = start, .arena_end = start + 128 * MIB}};
    CHECK(memory_open(-1, 0, &input) == CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE);
    CHECK(strstr(cufence_error_detail(), "addresses are taken in the new process"));
}

TEST(test_occupied)
{
#ifdef __SANITIZE_ADDRESS__
    skip(); /* the memory of a process that launches again goes with it */
#endif
    (void)state;
    expect_ending(tell_occupied, 0, NULL, NULL);
}

/* ---- beyond the buffers ---- */

/* Beyond all patterns. */
FAULT_TELLS(farther, "write_farther", "explain=rerun", PAST_THE_END, THREAD_PAST_THE_END, "!written further")

/* The guard between two buffers is that of both. */
TELLS(neighbours, PAST_THE_END, THREAD_PAST_THE_END, "written +4 bytes past the end: 2\\.5 +re-run", "!written further")
{
    start("explain=rerun");
    void *out = allocate(COUNT * 4), *other = allocate(3 << 20), *third = allocate(64);
    (void)third;
    launch_all("write_end", (void *[]){&other, &out, &(int){COUNT}});
    cuCtxSynchronize();
}

/* ---- beside the buffers, in their mappings ---- */

/* The fault is that of the store behind the mapping, though others came before it. */
TELLS(slack, "out-of-bounds WRITE of 4 bytes, 12 bytes past the end of buffer #1", "thread \\(108,0,0\\)",
      "written +4 bytes, beginning 12 bytes past the end: 2\\.5 +re-run",
      " 12 bytes past the end \\(mapped: no fault\\): 2\\.5 2\\.5 2\\.5$")
{
    start("explain=rerun");
    launch("write_last", allocate(COUNT * 4 + 4), COUNT + 4);
    cuCtxSynchronize();
}

/* What a launch was given may belong to another buffer by the time of the fault: what is slack of that was none. */
TELLS(reused, "written +4 bytes past the end of buffer #2: 2\\.5", "!mapped: no fault")
{
    static uint32_t flag;
    start("explain=rerun,small=map,uaf=off");
    void *out = allocate(COUNT * 4);
    void *next = NULL;
    spin_on(module, NULL, &flag);
    launch("write_last", out, COUNT);
    CHECK_OK(cufence_free(out, NULL));
    CHECK_OK(cufence_malloc(&next, 64, 0, NULL));
    CHECK((uintptr_t)out / 4096 == (uintptr_t)next / 4096); /* it has the same memory */
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    cuCtxSynchronize();
}

#define SECOND UINT64_C(1000000000)

TEST(test_bounds)
{
    const uint64_t argument = 0x1010;
    const struct launch_entry entry = {.time_ns = 10 * SECOND};
    const struct fault_launch known = {.entry = &entry};
    const struct fault_launch *recorded[] = {&known, &known};
    const struct rerun_launch launches[] = {{.arguments = (const uint8_t *)&argument, .argument_bytes = 8},
                                            {.argument_bytes = 0}};
    cufence_buffer buffer = {.address = 0x1000, .size = 32, .allocated_ns = 9 * SECOND};
    assert_true(bounds_are_sure(&buffer, launches, recorded, 2));
    buffer.allocated_ns = 10 * SECOND + 1000; /* within a tick, it has to be an argument */
    assert_true(bounds_are_sure(&buffer, launches, recorded, 1));
    assert_false(bounds_are_sure(&buffer, launches, recorded, 2));
    buffer.size = 16;
    assert_false(bounds_are_sure(&buffer, launches, recorded, 1));
    buffer.size = 32;
    buffer.allocated_ns = 11 * SECOND;
    assert_false(bounds_are_sure(&buffer, launches, recorded, 1));
    buffer.allocated_ns = 8 * SECOND;
    buffer.freed_ns = 11 * SECOND;
    assert_true(bounds_are_sure(&buffer, launches, recorded, 1));
    buffer.freed_ns = 9 * SECOND;
    assert_false(bounds_are_sure(&buffer, launches, recorded, 1));
    buffer.freed_ns = 0;
    recorded[0] = NULL;
    assert_false(bounds_are_sure(&buffer, launches, recorded, 1));
    assert_false(bounds_are_sure(&buffer, launches, recorded, 0));
}

/* It leaves a reason. */
TEST(a_process_that_ends_early_is_a_failure)
{
    static const uint8_t image[] = "no cubin";
    static const struct rerun_launch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
    struct rerun rerun = {
        .input = {.bundle = {.arena_start = 1, .arena_end = 2, .symbol = "k", .launches = &launch, .launch_count = 1},
                  .image = image,
                  .image_bytes = sizeof image},
        .program = "/bin/true",
        .limit_ms = 60000,
        .limit = "a minute",
        .begin_ns = monotonic_ns()};
    assert_int_equal(rerun_begin(&rerun), CUFENCE_OK);
    rerun_finish(&rerun);
    assert_int_equal(rerun.result.outcome, RERUN_FAILED);
    assert_string_equal(rerun.result.reason, "the process that launches it again has ended early");
    assert_string_equal(rerun.result.note, "");
    rerun_end(&rerun);
}

TEST_GROUP(make_folder, remove_folder)
