/* Leaks by place of allocation; who holds the memory when it runs out; figures by stream. */
#include "heap_story.h"

static void *allocate_as(size_t size, CUstream stream, const char *label)
{
    CHECK_OK(label ? cufence_label_push(label) : CUFENCE_OK);
    void *pointer = allocate(size, stream);
    CHECK_OK(label ? cufence_label_pop() : CUFENCE_OK);
    return pointer;
}

/* Two places with three buffers, and one that is freed. */
static void fill(void)
{
    allocate_as(MIB, NULL, "weights");
    allocate_as(2 * MIB, NULL, "weights");
    allocate_as(MIB, NULL, NULL);
    CHECK_OK(cufence_free(allocate_as(500, NULL, "gone"), NULL));
}

LINES(leaks_are_findings, 86, "== cufence: leak of 2 buffers, 3 MiB in all", "== cufence: leak of 1 buffer, 1 MiB in all",
      "nobody has freed these buffers, allocated at one place; shown is the largest", "nobody has freed this buffer",
      "cufence: 2 findings; 4 allocations guarded", "!gone")
{
    start("leaks=on");
    fill();
}

LINES(leaks_have_the_status_of_findings, 7, "== cufence: leak of 1 buffer, 500 bytes in all")
{
    start("leaks=on,on_fault=error/7");
    allocate_as(500, NULL, NULL);
}

LINES(what_is_freed_is_no_leak, 0, "no faults; 1 allocation guarded", "!leak")
{
    start("leaks=on");
    CHECK_OK(cufence_free(allocate_as(500, NULL, "gone"), NULL));
}

STORY(memory_runs_out)
{
    void *pointer;
    start(NULL);
    fill();
    CHECK(cufence_malloc(&pointer, (size_t)9 << 30, 0, NULL) == CUFENCE_ERROR_OUT_OF_MEMORY);
    CHECK(strstr(cufence_error_detail(), "; most is held by label \"weights\" (4194304 bytes in 2 buffers), an unknown place ("
                                         "2097152 bytes in 1 buffer). A buffer"));
}

static const cufence_stream_stats *of(const cufence_stream_stats *all, size_t count, CUstream stream)
{
    for (size_t i = 0; i < count; i++) {
        if (all[i].stream == (uint64_t)(uintptr_t)stream)
            return &all[i];
    }
    CHECK(0 && "the stream is there");
    return NULL;
}

STORY(by_stream)
{
    CUstream a, b;
    cufence_stream_stats all[8];
    start(NULL);
    CHECK_CU(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK_CU(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    allocate_as(1000, a, NULL);
    void *second = allocate_as(PAGE + 1, a, NULL);
    allocate_as(10, b, NULL);
    CHECK_OK(cufence_free(second, a));
    size_t count = cufence_get_streams(0, all, 8);
    CHECK(count == 2 && cufence_get_streams(-1, NULL, 0) == 2 && cufence_get_streams(1, all, 8) == 0);
    const cufence_stream_stats *first = of(all, count, a), *other = of(all, count, b);
    CHECK(first->live_buffers == 1 && first->live_bytes == 1000 && first->mapped_bytes == PAGE && first->device == 0);
    CHECK(first->idle_bytes == 2 * PAGE && first->allocations == 2 && first->frees == 1);
    CHECK(other->live_buffers == 1 && other->idle_bytes == 0 && other->allocations == 1 && other->frees == 0);
}

static int set_up(void **state)
{
    setenv("CUFENCE_OPTIONS", "stacks=python", 1); /* the tests are linked with the frames that would be left out */
    return 0;
}
TEST_GROUP(set_up, NULL)
