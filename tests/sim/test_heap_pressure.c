/* Buffers on the simulated device where memory or address space is short; leaks by place of allocation, figures by stream. */
#include "heap/block/books.h"
#include "heap/heap.h"
#include "heap/temporal/temporal.h"
#include "preload/preload_internal.h"
#include "vmm/physical.h"
#include "heap_story.h" /* last: it has a variable `context` */

#define IN_HAND (600 * MIB)

/* As a thread that unmaps: the memory is in no list, and not the driver's yet. */
static void *give_back_later(void *handle)
{
    RETURNS_MEMORY;
    usleep(300000);
    physical_give(0, IN_HAND, *(CUmemGenericAllocationHandle *)handle);
    return NULL;
}

static void hold_in_hand(pthread_t *thread)
{
    static CUmemGenericAllocationHandle handle;
    CHECK_OK(physical_take(0, IN_HAND, &handle));
    pthread_create(thread, NULL, give_back_later, &handle);
    while (!physical_is_moving(heap_returns()))
        usleep(100);
}

STORY(what_another_thread_gives_back_is_waited_for)
{
    pthread_t thread;
    setenv("CUFENCE_SIM", "memory=1G", 1);
    start("");
    hold_in_hand(&thread);
    CHECK(is_guarded(allocate(IN_HAND, NULL)));
    pthread_join(thread, NULL);
}

STORY(relief_waits_for_what_another_thread_gives_back)
{
    pthread_t thread;
    start("");
    allocate(100, NULL);
    hold_in_hand(&thread);
    uint64_t before = heap_returns();
    CHECK(heap_give_back(before) && heap_returns() != before && stats().cached_bytes == 0);
    pthread_join(thread, NULL);
}

static void *stay_in(void *books)
{
    CHECK(visit_begin(books, VISIT_FOR_EVER));
    usleep(300000);
    visit_end(books);
    return NULL;
}

STORY(relief_waits_for_the_background_thread)
{
    pthread_t thread;
    CUstream stream = start_with_stream("uaf=off");
    CHECK_OK(cufence_free(allocate(100 * MIB, stream), stream));
    CHECK_CU(cuStreamSynchronize(stream));
    struct books *books = books_of(context_current());
    uint64_t before = heap_returns();
    pthread_create(&thread, NULL, stay_in, books);
    usleep(50000);
    CHECK(heap_give_back(before) && !stats().idle_bytes);
    pthread_join(thread, NULL);
}

/* Buffers of ever other sizes: none can be used again. What a training step may need again stays at first. */
STORY(kept_is_bounded)
{
    tune("idle_beyond=1000");
    CUstream stream = start_with_stream("uaf=off");
    for (size_t size = 64 * MIB; size < 128 * MIB; size += 2 * MIB) {
        CHECK_OK(cufence_free(allocate(size, stream), stream));
        CHECK_CU(cuStreamSynchronize(stream));
    }
    usleep(20000);
    CHECK_OK(cufence_free(allocate(100, stream), stream)); /* puts a marker behind the last ones */
    usleep(400000);
    CHECK(stats().idle_bytes > 3000 * MIB);
    AWAIT(stats().idle_bytes <= 256 * MIB);
    CHECK(stats().idle_bytes >= 64 * MIB && stats().idle_bytes <= 256 * MIB);
    CHECK_OK(cufence_free(allocate(600 * MIB, stream), stream));
    CHECK_CU(cuStreamSynchronize(stream));
    usleep(1300000);
    CHECK(stats().idle_bytes >= 600 * MIB); /* as much as was used at most */
}

/* First guards get smaller, then small buffers share pages; what does not fit then is the driver's. */
STORY(a_small_arena_serves_many)
{
    enum { LARGE = 100, SMALL = 3000, MORE = 300 };
    cufence_description where = {.struct_size = sizeof where};
    cufence_unguarded left[8] = {{.struct_size = sizeof *left}};
    size_t reasons = 8;
    setenv("CUFENCE_SIM", "reserve=1G", 1); /* of address space for guarded buffers */
    start("");
    for (int i = 0; i < LARGE; i++) {
        CHECK_OK(cufence_describe(allocate(2 * MIB, NULL), &where));
        CHECK(where.place == CUFENCE_PLACE_INSIDE && where.buffer.guard_end - where.buffer.mapping_end <= 8 * MIB);
    }
    for (int i = 0; i < SMALL; i++) {
        CHECK_OK(cufence_describe(allocate(1000, NULL), &where));
        CHECK(where.place == CUFENCE_PLACE_INSIDE);
    }
    CHECK(cufence_get_unguarded(left, &reasons) == CUFENCE_OK && reasons == 0);
    reasons = 8;
    for (int i = 0; i < MORE; i++)
        CHECK_CU(cuMemsetD8((uintptr_t)allocate(2 * MIB, NULL), 1, 2 * MIB));
    CHECK_OK(cufence_get_unguarded(left, &reasons));
    CHECK(reasons == 1 && strstr(left[0].what, "no address space") && left[0].live_buffers < MORE);
}

/* ---- what is freed is the device's ---- */

/* As the background thread, which launches checks of what was freed whenever it looks. */
static void *look(void *of_context)
{
    struct books *books = of_context;
    CHECK(visit_begin(books, VISIT_FOR_EVER));
    struct scope scope = scope_visit(books->context);
    reclaim_look(books, 1);
    scope_leave(scope);
    visit_end(books);
    return NULL;
}

/* Returns what is still mapped once the stream, or with an odd number the context, is synchronised beside such a look. */
static uint64_t left_beside(CUstream stream, unsigned begin_us)
{
    CUdeviceptr pointer;
    pthread_t thread;
    CHECK_CU(hook_cuMemAllocAsync(&pointer, 600 * MIB - 100, stream));
    CHECK_CU(hook_cuStreamSynchronize(stream));
    CHECK_CU(hook_cuMemFreeAsync(pointer, stream));
    pthread_create(&thread, NULL, look, books_of(context_current()));
    usleep(begin_us);
    CHECK_CU(begin_us % 2 ? hook_cuCtxSynchronize() : hook_cuStreamSynchronize(stream));
    cufence_stats left = stats();
    pthread_join(thread, NULL);
    return left.mapped_bytes + left.cached_bytes;
}

STORY(a_synchronisation_gives_back_beside_a_check)
{
    CUstream stream;
    table_open();
    CHECK_CU(hook_cuInit(0));
    CHECK_CU(hook_cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_CU(cuCtxSetCurrent(context));
    CHECK_CU(hook_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    left_beside(stream, 0); /* what is launched first takes longer */
    cusim_set_latency("cuLaunchKernel", 4000);
    CHECK(left_beside(stream, 2000) == 0 && left_beside(stream, 2001) == 0);
    cusim_set_latency("cuStreamSynchronize", 6000);
    cusim_set_latency("cuCtxSynchronize", 6000);
    CHECK(left_beside(stream, 0) == 0 && left_beside(stream, 1) == 0);
}

/* ---- who holds the memory ---- */

/* The tests are linked with the frames that would be left out. */
static void start_by_size(const char *options)
{
    setenv("CUFENCE_OPTIONS", "stacks=python", 1);
    start(options);
}

static void *allocate_as(size_t size, const char *label)
{
    CHECK_OK(label ? cufence_label_push(label) : CUFENCE_OK);
    void *pointer = allocate(size, NULL);
    CHECK_OK(label ? cufence_label_pop() : CUFENCE_OK);
    return pointer;
}

/* Two places with three buffers, and one that is freed. */
static void fill(void)
{
    allocate_as(MIB, "weights");
    allocate_as(2 * MIB, "weights");
    allocate_as(MIB, NULL);
    CHECK_OK(cufence_free(allocate_as(500, "gone"), NULL));
}

LINES(leaks_are_findings, 86, "== cufence: leak of 2 buffers, 3 MiB in all", "== cufence: leak of 1 buffer, 1 MiB in all",
      "nobody has freed these buffers, allocated at one place; shown is the largest", "nobody has freed this buffer",
      "cufence: 2 findings; 4 allocations guarded", "!gone")
{
    start_by_size("leaks=on");
    fill();
}

LINES(what_is_freed_is_no_leak, 0, "no faults; 1 allocation guarded", "!leak")
{
    start_by_size("leaks=on");
    CHECK_OK(cufence_free(allocate_as(500, "gone"), NULL));
}

STORY(memory_runs_out)
{
    void *pointer;
    start_by_size(NULL);
    fill();
    CHECK(cufence_malloc(&pointer, (size_t)9 << 30, 0, NULL) == CUFENCE_ERROR_OUT_OF_MEMORY);
    CHECK(strstr(cufence_error_detail(), "; most is held by label \"weights\" (4194304 bytes in 2 buffers), an unknown place ("
                                         "2097152 bytes in 1 buffer). A buffer"));
}

TEST_CONCURRENTLY
