/* One planted bug per story, on a real GPU through the C API: what the handler and the report say. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "story.h"

enum { COUNT = 1000, BLOCKS = 8 };

/* cufence doesn't poison the context or change the exit status. */
#define GO_ON "on_fault=continue,exitcode=0"

static void expect_text(const struct story *story, const char *text)
{
    if (!strstr(story->witness->text, text))
        fail_msg("\"%s\" is missing in:\n%s", text, story->witness->text);
}

/* Checks what all stories here have in common: exit status 0, and exactly one report, for the planted line. */
static void expect_report(const struct story *story, const char *kernel, const char *kind)
{
    const struct witness *seen = story->witness;
    char line[64];
    if (story->exit_status != 0 || seen->faults != 1)
        fail_msg("status %d, signal %d, %d faults: %s", story->exit_status, story->signal, seen->faults, story->stderr_text);
    if (strcmp(seen->kind, kind) != 0 || !strstr(seen->kernel, kernel))
        fail_msg("\"%s\" in \"%s\" instead of \"%s\" in \"%s\":\n%s", seen->kind, seen->kernel, kind, kernel, seen->text);
    snprintf(line, sizeof line, "kernels.cu:%d", kernels_line(kernel));
    expect_text(story, line);
    assert_int_equal(seen->line, kernels_line(kernel));
    if (!strstr(story->stderr_text, seen->text))
        fail_msg("the report did not reach stderr:\n%s", story->stderr_text);
}

/* As expect_report(), and the access is `distance` bytes from the buffer `label` of `size` bytes: behind its end, or in
 * front of its start if negative. */
static void expect_bug(const struct story *story, const char *kernel, const char *kind, const char *label, uint64_t size,
                       int64_t distance)
{
    const struct witness *seen = story->witness;
    expect_report(story, kernel, kind);
    if (!seen->is_address_known || !seen->has_buffer)
        fail_msg("no address or no buffer:\n%s", seen->text);
    assert_string_equal(seen->buffer.label, label);
    assert_int_equal(seen->buffer.size, size);
    uint64_t edge = distance < 0 ? seen->buffer.address : seen->buffer.address + seen->buffer.size;
    assert_int_equal(seen->address, edge + (uint64_t)distance);
}

/* Synchronises and waits for the report; ignores the result of the synchronisation. */
static int finish(void)
{
    driver->cuCtxSynchronize();
    return story_wait_report(10) ? 0 : 1;
}

/* in[COUNT] and out[COUNT] with elements of the given size, on one stream. */
static int tell_two_buffers(const char *kernel, size_t element, int n)
{
    void *in = story_buffer("input", COUNT * element, NULL), *out = story_buffer("output", COUNT * element, NULL);
    story_ok(story_launch(kernel, BLOCKS, NULL, ARGUMENTS(&in, &out, &n)), kernel);
    return finish();
}

static int tell_read(void)
{
    return tell_two_buffers("gpu_read_past", 4, COUNT);
}

TEST(test_read)
{
    const struct story *story = story_run(GO_ON, tell_read);
    expect_bug(story, "gpu_read_past", "overrun", "input", 4000, 0);
    expect_text(story, "out-of-bounds READ of 4 bytes");
    expect_text(story, "0 bytes past the end");
    expect_text(story, "(8,1,1)");
    expect_text(story, "(128,1,1)");
    expect_text(story, "block (7,0,0) thread (103,0,0)"); /* i == 999 reads in[1000] */
}

static int tell_write(void)
{
    void *out = story_buffer("output", 4000, NULL), *scratch = story_buffer("scratch", 4000, NULL);
    int n = COUNT;
    story_ok(story_launch("gpu_write_past", BLOCKS, NULL, ARGUMENTS(&out, &scratch, &n)), "gpu_write_past");
    return finish();
}

TEST(test_write)
{
    const struct story *story = story_run(GO_ON, tell_write);
    expect_bug(story, "gpu_write_past", "overrun", "output", 4000, 0);
    expect_text(story, "out-of-bounds WRITE of 4 bytes");
    expect_text(story, "block (7,0,0) thread (104,0,0)");
}

static int tell_atomic(void)
{
    return tell_two_buffers("gpu_atomic", 4, COUNT);
}

TEST(test_atomic)
{
    const struct story *story = story_run(GO_ON, tell_atomic);
    expect_bug(story, "gpu_atomic", "overrun", "input", 4000, 0);
    expect_text(story, "ATOMIC");
}

static int tell_vector(void)
{
    return tell_two_buffers("gpu_vector", 16, COUNT);
}

TEST(test_vector)
{
    const struct story *story = story_run(GO_ON, tell_vector);
    expect_bug(story, "gpu_vector", "overrun", "input", 16000, 0);
    expect_text(story, "out-of-bounds READ of 16 bytes");
}

/* 999 elements of 2 bytes: with align=auto (2 bytes here) the end is flush; with 16 there would be 2 bytes of slack. */
static int tell_half(void)
{
    void *in = story_buffer("input", 1998, NULL), *out = story_buffer("output", 1998, NULL);
    int n = 999;
    story_ok(story_launch("gpu_half", BLOCKS, NULL, ARGUMENTS(&in, &out, &n)), "gpu_half");
    return finish();
}

TEST(test_half)
{
    const struct story *story = story_run(GO_ON ",align=auto", tell_half);
    expect_bug(story, "gpu_half", "overrun", "input", 1998, 0);
    expect_text(story, "out-of-bounds READ of 2 bytes");
}

/* 3.5 MiB: two pages, the buffer is flush with the end of the second. */
static int tell_large(void)
{
    const size_t size = 7u << 19;
    void *in = story_buffer("input", size, NULL), *out = story_buffer("output", size, NULL);
    int n = (int)(size / 4);
    story_ok(story_launch("gpu_read_past", (unsigned)(n + 127) / 128, NULL, ARGUMENTS(&in, &out, &n)), "gpu_read_past");
    return finish();
}

TEST(test_large)
{
    expect_bug(story_run(GO_ON, tell_large), "gpu_read_past", "overrun", "input", 7u << 19, 0);
}

static int tell_underrun(void)
{
    return tell_two_buffers("gpu_read_before", 4, COUNT);
}

TEST(test_underrun)
{
    const struct story *story = story_run(GO_ON ",side=start", tell_underrun);
    expect_bug(story, "gpu_read_before", "underrun", "input", 4000, -4);
    expect_text(story, "4 bytes before the start");
    expect_text(story, "block (0,0,0) thread (0,0,0)");
}

static int tell_use_after_free(void)
{
    void *table = story_buffer("table", 4000, NULL), *out = story_buffer("output", 4000, NULL);
    int n = COUNT;
    cufence_description found = {.place = CUFENCE_PLACE_UNKNOWN};
    story_ok(driver->cuCtxSynchronize(), "cuCtxSynchronize");
    story_check(cufence_free(table, NULL) == CUFENCE_OK, "free");
    for (int i = 0; i < 5000; i++) {
        story_check(cufence_describe(table, &found) == CUFENCE_OK, "describe");
        if (!found.buffer.is_mapped)
            break;
        story_sleep_ms(1);
    }
    story_check(found.place == CUFENCE_PLACE_FREED && !found.buffer.is_mapped, "not retired");
    story_ok(story_launch("gpu_gather", BLOCKS, NULL, ARGUMENTS(&table, &out, &n)), "gpu_gather");
    return finish();
}

TEST(test_use_after_free)
{
    const struct story *story = story_run(GO_ON ",uaf=strict", tell_use_after_free);
    expect_report(story, "gpu_gather", "use-after-free");
    assert_true(story->witness->has_buffer && story->witness->is_address_known);
    assert_string_equal(story->witness->buffer.label, "table");
    assert_true(story->witness->buffer.freed_ns >= story->witness->buffer.allocated_ns && story->witness->buffer.freed_ns > 0);
    assert_true(story->witness->address >= story->witness->buffer.address);
    assert_true(story->witness->address < story->witness->buffer.address + 4000);
}

/* With drivers before CUDA 13.3, the warp has exited when the dump is taken: kernel and line are exact, the buffers are
 * candidates. A driver that keeps such warps gives the complete report. */
static int tell_store_only(void)
{
    void *out = story_buffer("output", 4000, NULL);
    int n = COUNT;
    story_ok(story_launch("gpu_store_only", BLOCKS, NULL, ARGUMENTS(&out, &n)), "gpu_store_only");
    return finish();
}

TEST(test_store_only)
{
    const struct story *story = story_run(GO_ON, tell_store_only);
    if (story->witness->is_address_known) {
        expect_bug(story, "gpu_store_only", "overrun", "output", 4000, 0);
        return;
    }
    expect_report(story, "gpu_store_only", "illegal access");
    expect_text(story, "the warp had exited");
    expect_text(story, "output");
    expect_text(story, "candidate");
    expect_text(story, "WRITE");
}

/* Another stream works for half a second. It is not blamed, and its result is correct. */
static int tell_busy(void)
{
    CUstream busy = story_stream(), faulty = story_stream();
    unsigned long long wait_ns = 500000000;
    int value = 42, n = COUNT;
    void *result = story_buffer("result", 4, busy);
    void *in = story_buffer("input", 4000, faulty), *out = story_buffer("output", 4000, faulty);
    story_ok(driver->cuCtxSynchronize(), "cuCtxSynchronize");
    story_ok(story_launch("gpu_wait", 1, busy, ARGUMENTS(&wait_ns, &result, &value)), "gpu_wait");
    story_ok(story_launch("gpu_read_past", BLOCKS, faulty, ARGUMENTS(&in, &out, &n)), "gpu_read_past");
    witness->value[0] = (uint64_t)driver->cuStreamQuery(busy);
    return finish();
}

TEST(test_busy)
{
    const struct story *story = story_run(GO_ON, tell_busy);
    expect_bug(story, "gpu_read_past", "overrun", "input", 4000, 0);
    assert_int_equal(story->witness->value[0], CUDA_ERROR_NOT_READY);
}

static int tell_graph(void)
{
    CUresult (*begin)(CUstream, CUstreamCaptureMode) = (__typeof__(begin))story_symbol("cuStreamBeginCapture_v2");
    CUresult (*end)(CUstream, CUgraph *) = (__typeof__(end))story_symbol("cuStreamEndCapture");
    CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long) =
        (__typeof__(instantiate))story_symbol("cuGraphInstantiateWithFlags");
    CUresult (*replay)(CUgraphExec, CUstream) = (__typeof__(replay))story_symbol("cuGraphLaunch");
    CUstream stream = story_stream();
    CUgraph graph;
    CUgraphExec executable;
    size_t one = 1;
    int n = COUNT, zero = 0;
    void *in = story_buffer("input", 4000, stream), *out = NULL;
    story_ok(story_launch("gpu_fill", 1, stream, ARGUMENTS(&in, &one, &zero)), "gpu_fill");
    story_ok(driver->cuStreamSynchronize(stream), "cuStreamSynchronize");
    story_ok(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    story_check(cufence_malloc(&out, 4000, 0, stream) == CUFENCE_OK, "cufence_malloc in a capture");
    story_ok(story_launch("gpu_read_past", BLOCKS, stream, ARGUMENTS(&in, &out, &n)), "gpu_read_past");
    story_ok(end(stream, &graph), "cuStreamEndCapture");
    story_ok(instantiate(&executable, graph, 0), "cuGraphInstantiate");
    story_ok(replay(executable, stream), "cuGraphLaunch");
    return finish();
}

TEST(test_graph)
{
    expect_bug(story_run(GO_ON, tell_graph), "gpu_read_past", "overrun", "input", 4000, 0);
}

int main(int argc, char **argv)
{
    story_require_gpu();
    return test_run(argc, argv);
}
