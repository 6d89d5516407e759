/* What is left to the driver on a real GPU. tests/torture plays the rest of the heap there. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "story.h"

static uint64_t used_of_pool(void)
{
    CUresult (*get)(CUmemoryPool, CUmemPool_attribute, void *) = (__typeof__(get))story_symbol("cuMemPoolGetAttribute");
    CUmemoryPool pool = NULL;
    cuuint64_t used = 0;
    story_ok(driver->cuDeviceGetMemPool(&pool, 0), "cuDeviceGetMemPool");
    story_ok(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used), "cuMemPoolGetAttribute");
    return used;
}

/* What is left to the driver is freed while a stream captures, its own or a recorded one: the capture goes on, nothing waits
 * for the work before it, and the memory is given back afterwards. */
static int tell_unguarded_in_captures(void)
{
    CUresult (*begin)(CUstream, CUstreamCaptureMode) = (__typeof__(begin))story_symbol("cuStreamBeginCapture_v2");
    CUresult (*end)(CUstream, CUgraph *) = (__typeof__(end))story_symbol("cuStreamEndCapture");
    CUstream own = story_stream(), other = story_stream(), captured[] = {own, other, other};
    unsigned long long wait_ns = 200000000;
    int late = 5;
    void *busy = story_buffer("busy", 4000, own), *freed[3];
    story_ok(story_launch("gpu_wait", 1, own, ARGUMENTS(&wait_ns, &busy, &late)), "gpu_wait"); /* loads the module */
    for (int i = 0; i < 3; i++)
        freed[i] = story_buffer("freed", 1000, own);
    story_ok(driver->cuStreamSynchronize(own), "cuStreamSynchronize");
    uint64_t used = used_of_pool();
    story_check(cufence_record_stream(freed[1], other) == CUFENCE_OK, "record_stream");
    for (int i = 0; i < 3; i++) { /* on its own stream, with a recorded one that captures, and beside a capture of another */
        CUgraph graph = NULL;
        story_ok(story_launch("gpu_wait", 1, own, ARGUMENTS(&wait_ns, &busy, &late)), "gpu_wait");
        uint64_t start = story_now();
        story_ok(begin(captured[i], CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
        story_check(cufence_free(freed[i], own) == CUFENCE_OK, "free %d", i);
        story_check(story_now() - start < 100000000, "free %d waited", i);
        story_ok(end(captured[i], &graph), "cuStreamEndCapture");
        story_check(graph != NULL, "capture %d was invalidated", i);
    }
    story_check(cufence_trim(0) == CUFENCE_OK, "trim");
    story_ok(driver->cuCtxSynchronize(), "cuCtxSynchronize");
    story_check(used_of_pool() == used - 3000, "%llu bytes are used instead of %llu", (unsigned long long)used_of_pool(),
                (unsigned long long)used - 3000);
    return 0;
}

TEST(test_unguarded_in_captures)
{
    const struct story *story = story_run("skip=smaller:1M", tell_unguarded_in_captures);
    if (story->exit_status != 0 || story->witness->faults != 0)
        fail_msg("status %d, signal %d, %d faults: %s", story->exit_status, story->signal, story->witness->faults,
                 story->stderr_text);
}

int main(int argc, char **argv)
{
    story_require_gpu();
    return test_run(argc, argv);
}
