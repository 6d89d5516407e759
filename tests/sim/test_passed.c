/* What the options leave out of the guarding, and what is left to the driver where pages run out: the C API. */
#include "heap/unguarded/unguarded.h"
#include "heap_story.h"

#include <stdatomic.h>

static void *allocate_used(size_t size, CUstream stream)
{
    void *pointer = allocate(size, stream);
    if (stream)
        CHECK_CU(cuStreamSynchronize(stream));
    CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)pointer, 7, size));
    CHECK_CU(cuStreamSynchronize(NULL));
    return pointer;
}

static cufence_unguarded unguarded(const char *word)
{
    cufence_unguarded all[16] = {{.struct_size = sizeof *all}};
    size_t count = 16;
    CHECK_OK(cufence_get_unguarded(all, &count));
    CHECK(count <= 16);
    for (size_t i = 0; i < count; i++) {
        if (strstr(all[i].what, word))
            return all[i];
    }
    return (cufence_unguarded){.what = NULL};
}

STORY(small_ones_are_left_out)
{
    CUstream stream = start_with_stream("skip=smaller:4K");
    void *small = allocate_used(4095, stream), *large = allocate_used(4096, stream);
    CHECK(!is_guarded(small) && is_guarded(large));
    cufence_unguarded figures = unguarded("smaller than");
    CHECK(figures.allocations == 1 && figures.bytes == 4095 && figures.live_buffers == 1 && figures.live_bytes == 4095);
    CHECK_OK(cufence_free(small, stream));
    CHECK_OK(cufence_free(large, stream));
    figures = unguarded("smaller than");
    CHECK(figures.allocations == 1 && figures.live_buffers == 0 && figures.live_bytes == 0);
    CHECK(cufence_free(small, stream) == CUFENCE_ERROR_INVALID_FREE);
    cufence_stats stats = {.struct_size = sizeof stats};
    CHECK_OK(cufence_get_stats(0, &stats));
    CHECK(stats.allocations == 1 && stats.unguarded_allocations == 1 && stats.unguarded_bytes == 4095);
}

/* The driver gives the address of a freed buffer to another thread before the first one has noted its free; another free fails.
 */
STORY(an_address_changes_hands)
{
    const uint64_t address = 0x7000;
    start("skip=smaller:4K");
    const struct heap_request wanted = {.size = 100, .context = context_current()};
    CHECK(!passed_take(address));
    CHECK(passed_add(address, &wanted, PASSED_SMALL));
    struct passed *first = passed_take(address);
    CHECK(first && unguarded("smaller than").live_buffers == 0);
    CHECK(passed_add(address, &wanted, PASSED_SMALL));
    passed_freed(first, 1);
    cufence_unguarded figures = unguarded("smaller than");
    CHECK(figures.live_buffers == 1 && figures.live_bytes == 100);
    passed_freed(passed_take(address), 0);
    figures = unguarded("smaller than");
    CHECK(figures.live_buffers == 1 && figures.live_bytes == 100 && figures.allocations == 2);
    passed_freed(passed_take(address), 1);
    CHECK(unguarded("smaller than").live_buffers == 0 && !passed_take(address));
}

STORY(labels_choose)
{
    start("skip=label:optim*;label:cache");
    CHECK(is_guarded(allocate_used(100, NULL)));
    CHECK_OK(cufence_label_push("optimizer"));
    CHECK(!is_guarded(allocate_used(100, NULL)));
    CHECK_OK(cufence_label_push("loader"));
    CHECK(is_guarded(allocate_used(100, NULL)));
    CHECK_OK(cufence_label_pop());
    CHECK_OK(cufence_label_pop());
    CHECK_OK(cufence_label_push("cache"));
    CHECK(!is_guarded(allocate_used(100, NULL)));
    CHECK(unguarded("skip").live_buffers == 2);
}

__attribute__((noinline)) static void *allocate_in_a_named_place(void)
{
    void *pointer = allocate_used(100, NULL);
    __asm__ volatile("" ::: "memory");
    return pointer;
}

STORY(functions_choose)
{
    start("skip=func:allocate_in_a_named*;label:no");
    for (int i = 0; i < 3; i++) {
        CHECK(is_guarded(allocate_used(100, NULL)));
        CHECK(!is_guarded(allocate_in_a_named_place()));
    }
    CHECK_OK(cufence_label_push("no"));
    CHECK(!is_guarded(allocate_used(100, NULL)));
    CHECK(unguarded("skip").allocations == 4);
}

static uint32_t flag;

/* The free is in the order of the recorded stream as well: its work has not ended, so the free waits on the device. */
STORY(recorded_streams_are_waited_for)
{
    start("skip=smaller:1M");
    CUstream own = new_stream(), other = new_stream();
    void *small = allocate_used(4000, own);
    CHECK_CU(cuStreamSynchronize(own));
    spin(other, &flag);
    CHECK_OK(cufence_record_stream(small, other));
    CHECK_OK(cufence_free(small, own));
    CHECK(cuStreamQuery(own) == CUDA_ERROR_NOT_READY);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK_CU(cuStreamSynchronize(own));
}

static uint64_t used_of_the_pool(void)
{
    cuuint64_t used = 0;
    CUmemoryPool pool;
    CHECK_CU(cuDeviceGetMemPool(&pool, 0));
    CHECK_CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    return used;
}

static void end_capture(CUstream stream)
{
    CUgraph graph;
    size_t nodes = 1;
    CHECK_CU(cuStreamEndCapture(stream, &graph));
    CHECK_CU(cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == 0);
    CHECK_CU(cuGraphDestroy(graph));
}

/* A capture takes no free of memory from outside, and what the stream did before it need not be over: the free waits for the
 * end of the capture, and the program does not. */
STORY(a_capture_delays_a_free)
{
    start("skip=smaller:1M");
    CUstream own = new_stream(), other = new_stream();
    void *first = allocate_used(4000, own), *second = allocate_used(4000, own), *third = allocate_used(4000, own);
    CHECK_OK(cufence_record_stream(second, other));
    spin(own, &flag);
    CHECK_CU(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_OK(cufence_free(first, own));
    CHECK_OK(cufence_free(second, own));
    CHECK(used_of_the_pool() == 12000 && unguarded("smaller than").live_buffers == 1);
    end_capture(own);
    CHECK_OK(cufence_free(third, own));
    CHECK(cuStreamQuery(own) == CUDA_ERROR_NOT_READY);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK_CU(cuStreamSynchronize(own));
    CHECK(used_of_the_pool() == 0);
}

/* An event on a stream that captures would pull the stream of the free into the capture. */
STORY(a_capture_of_a_recorded_stream_delays_a_free)
{
    start("skip=smaller:1M");
    CUstream own = new_stream(), other = new_stream();
    void *small = allocate_used(4000, own);
    CHECK_OK(cufence_record_stream(small, other));
    CHECK_CU(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_OK(cufence_free(small, own));
    end_capture(other);
    CHECK(used_of_the_pool() == 4000);
    CHECK_OK(cufence_trim(-1));
    CHECK_CU(cuStreamSynchronize(own));
    CHECK(used_of_the_pool() == 0);
}

/* Whatever other streams capture. */
STORY(a_free_leaves_captures_alone)
{
    start("skip=smaller:1M");
    CUstream own = new_stream(), other = new_stream();
    void *small = allocate_used(4000, own);
    CHECK_CU(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_OK(cufence_free(small, own));
    end_capture(other);
    CHECK_CU(cuStreamSynchronize(own));
    CHECK(used_of_the_pool() == 0);
}

enum { RECORDERS = 2, ROUNDS = 20000 };
static void *_Atomic latest;
static atomic_int has_ended;

static void *record_latest(void *stream)
{
    CHECK_CU(cuCtxSetCurrent(context));
    while (!atomic_load(&has_ended)) {
        cufence_status status = cufence_record_stream(atomic_load(&latest), stream);
        CHECK(status == CUFENCE_OK || status == CUFENCE_ERROR_NOT_FOUND);
    }
    return NULL;
}

/* The program is wrong; a stream is recorded for the buffer or for none. */
STORY(one_is_freed_while_a_stream_is_recorded)
{
    pthread_t threads[RECORDERS];
    start("skip=smaller:1M");
    CUstream own = new_stream(), other = new_stream();
    for (int i = 0; i < RECORDERS; i++)
        CHECK(pthread_create(&threads[i], NULL, record_latest, other) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        void *pointer = allocate(1000, own);
        atomic_store(&latest, pointer);
        CHECK_OK(cufence_free(pointer, own));
    }
    atomic_store(&has_ended, 1);
    for (int i = 0; i < RECORDERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_CU(cuCtxSynchronize());
    CHECK(unguarded("smaller than").allocations == ROUNDS && unguarded("smaller than").live_buffers == 0);
}

/* Memory of a graph is guarded whatever the options say: the driver would take it back with the graph. */
STORY(graphs_are_always_guarded)
{
    CUgraph graph;
    void *pointer = NULL;
    CUstream stream = start_with_stream("skip=smaller:1M");
    CHECK(!is_guarded(allocate_used(100, stream)));
    CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_OK(cufence_malloc(&pointer, 100, 0, stream));
    CHECK_CU(cuStreamEndCapture(stream, &graph));
    CHECK(is_guarded(pointer));
}

STORY(no_room_for_pages)
{
    start(NULL);
    void *guarded = allocate_used(100, NULL), *passed;
    CHECK(is_guarded(guarded));
    cusim_fail_calls("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY);
    passed = allocate_used(PAGE * 3, NULL);
    CHECK(!is_guarded(passed) && unguarded("no room").live_buffers == 1);
    cusim_fail_calls("cuMemCreate", CUDA_SUCCESS);
    CHECK(is_guarded(allocate_used(PAGE * 3, NULL)));
    CHECK_OK(cufence_free(passed, NULL));
    CHECK(unguarded("no room").live_buffers == 0 && unguarded("no room").allocations == 1);
}

/* Where the driver has no memory either, the error is that of the guarded allocation, and the driver is not even asked. */
STORY(nobody_has_room)
{
    void *pointer = NULL;
    start(NULL);
    uint64_t before = cusim_call_count("cuMemAllocAsync") + cusim_call_count("cuMemAlloc");
    CHECK(cufence_malloc(&pointer, (size_t)9 << 30, 0, NULL) == CUFENCE_ERROR_OUT_OF_MEMORY && !pointer);
    CHECK(strstr(cufence_error_detail(), "A buffer takes whole pages of 2 MiB"));
    CHECK(cusim_call_count("cuMemAllocAsync") + cusim_call_count("cuMemAlloc") == before);
}

STORY(without_stream_ordered_memory)
{
    start("skip=smaller:1M");
    cusim_fail_calls("cuMemAllocAsync", CUDA_ERROR_NOT_SUPPORTED);
    void *small = allocate_used(4000, NULL);
    CHECK(!is_guarded(small));
    CHECK_OK(cufence_free(small, NULL));
    CHECK(unguarded("smaller than").live_buffers == 0);
}

/* A device that was full a moment ago is not searched for each buffer, but it is before an allocation fails. */
STORY(a_full_device_is_searched_again_in_need)
{
    enum { SMALL = 50 };
    setenv("CUFENCE_SIM", "memory=256M", 1);
    start(NULL);
    CUstream stream = new_stream(), other = new_stream();
    void *large = allocate_used(40 * MIB, stream), *small[SMALL];
    cusim_fail_calls("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t before = cusim_call_count("cuCtxSynchronize");
    for (int i = 0; i < SMALL; i++)
        CHECK_OK(cufence_malloc(&small[i], 10, 0, i % 2 ? NULL : stream));
    for (int i = 0; i < SMALL; i++)
        CHECK_OK(cufence_free(small[i], stream));
    CHECK(unguarded("no room").allocations == SMALL && cusim_call_count("cuCtxSynchronize") - before < SMALL / 2);
    cusim_fail_calls("cuMemCreate", CUDA_SUCCESS);
    CHECK_CU(cuStreamSynchronize(stream));
    CHECK_OK(cufence_free(large, stream));
    CHECK(is_guarded(allocate_used(230 * MIB, other)));
}

/* The buffers of a context end with it. */
STORY(a_context_takes_its_buffers_along)
{
    CUcontext own;
    void *pointer;
    start("skip=smaller:1M");
    CHECK_CU(cuCtxCreate(&own, NULL, 0, 0));
    CHECK_OK(cufence_malloc(&pointer, 100, -1, NULL));
    CHECK(unguarded("smaller than").live_buffers == 1);
    CHECK_OK(cufence_context_gone(own));
    CHECK_CU(cuCtxDestroy(own));
    CHECK_CU(cuCtxSetCurrent(context));
    CHECK(unguarded("smaller than").live_buffers == 0);
    CHECK(cufence_free(pointer, NULL) == CUFENCE_ERROR_INVALID_FREE);
}

/* What the driver's pool keeps of freed buffers is released before a guarded buffer fails. */
STORY(the_drivers_pool_gives_back)
{
    cuuint64_t all = UINT64_MAX;
    CUmemoryPool pool;
    setenv("CUFENCE_SIM", "memory=64M", 1);
    start("skip=label:left");
    CHECK_CU(cuDeviceGetMemPool(&pool, 0));
    CHECK_CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all)); /* as PyTorch does */
    CUstream stream = new_stream();
    CHECK_OK(cufence_label_push("left"));
    void *left = allocate_used(40 * MIB, stream);
    CHECK_OK(cufence_label_pop());
    CHECK_OK(cufence_free(left, stream));
    CHECK_CU(cuStreamSynchronize(stream));
    CHECK(is_guarded(allocate_used(40 * MIB, stream)));
}

LINES(what_is_left_to_the_driver_is_said_once, 0,
      "device 0 has no room left for whole pages of 2 MiB: 0 live buffers ask for 0 bytes and map 0, ",
      "left to the driver, unguarded (this one: 2097152 bytes)", "NOTHING WAS GUARDED: every allocation was left to the driver",
      "not guarded: 2 buffers for whose pages of 2 MiB there was no room, 4 MiB in all",
      "not guarded: 1 buffer smaller than skip=smaller, 10 bytes in all")
{
    start("skip=smaller:64");
    cusim_fail_calls("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY);
    allocate_used(PAGE, NULL);
    allocate_used(PAGE, NULL);
    allocate_used(10, NULL);
}

TEST_CONCURRENTLY
