/* Recorded launches on a real GPU: what the driver reports about kernels. programs.py has what reports make of it. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "launch/launch.h"
#include "story.h"

#define GO_ON "on_fault=continue/0"

static CUmodule module;

static CUfunction function_of(const char *kernel)
{
    CUfunction function;
    if (!module)
        story_ok(driver->cuModuleLoadData(&module, kernels_image()), "cuModuleLoadData");
    story_ok(driver->cuModuleGetFunction(&function, module, kernel), kernel);
    return function;
}

static CUcontext current(void)
{
    CUcontext context = NULL;
    story_ok(driver->cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    return context;
}

/* Launches as a program with hooks does. */
static void launch(CUfunction function, unsigned blocks, CUstream stream, void **arguments)
{
    const struct launch_call call = {
        .function = function, .grid = {blocks, 1, 1}, .block = {128, 1, 1}, .stream = stream, .parameters = arguments};
    launch_record(context_of(current()), &call);
    story_ok(driver->cuLaunchKernel(function, blocks, 1, 1, 128, 1, 1, 0, stream, arguments, NULL), "cuLaunchKernel");
}

static const struct launch_entry *newest(void)
{
    static struct launch_entry entry;
    const struct launch_query query = {.context = context_of(current()), .device = -1};
    story_check(launch_read(&query, &entry, NULL, 1) == 1, "no launch is on record");
    return &entry;
}

/* gpu_read_past(const float *, float *, int) */
static void check_facts(const void *in, const void *out, int n, const char *handle)
{
    static const struct launch_argument layout[] = {{0, 8}, {8, 8}, {16, 4}};
    const struct launch_entry *entry = newest();
    story_check(entry->function && strcmp(entry->function->name, "gpu_read_past") == 0, "%s: the name is \"%s\"", handle,
                entry->function ? entry->function->name : "");
    story_check(entry->function->has_layout && entry->function->argument_count == 3 &&
                    memcmp(entry->function->arguments, layout, sizeof layout) == 0,
                "%s: another layout", handle);
    story_check(entry->kept_bytes == 20 && memcmp(entry->bytes, &in, 8) == 0 && memcmp(entry->bytes + 8, &out, 8) == 0 &&
                    memcmp(entry->bytes + 16, &n, 4) == 0,
                "%s: other arguments", handle);
}

/* A CUfunction, and a CUkernel as the runtime passes it. */
static int tell_handles(void)
{
    CUresult (*load)(CUlibrary *, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *, void **, unsigned) =
        (__typeof__(load))story_symbol("cuLibraryLoadData");
    CUresult (*get)(CUkernel *, CUlibrary, const char *) = (__typeof__(get))story_symbol("cuLibraryGetKernel");
    CUlibrary library;
    CUkernel kernel;
    int n = 10;
    void *in = story_buffer("input", 4000, NULL), *out = story_buffer("output", 4000, NULL);
    launch(function_of("gpu_read_past"), 1, NULL, ARGUMENTS(&in, &out, &n));
    check_facts(in, out, n, "CUfunction");
    story_ok(load(&library, kernels_image(), NULL, NULL, 0, NULL, NULL, 0), "cuLibraryLoadData");
    story_ok(get(&kernel, library, "gpu_read_past"), "cuLibraryGetKernel");
    launch((CUfunction)kernel, 1, NULL, ARGUMENTS(&out, &in, &n));
    check_facts(out, in, n, "CUkernel");
    story_ok(driver->cuCtxSynchronize(), "cuCtxSynchronize");
    return 0;
}

static void expect_well(const struct story *story)
{
    if (story->exit_status != 0 || story->witness->faults)
        fail_msg("status %d, signal %d, %d faults: %s", story->exit_status, story->signal, story->witness->faults,
                 story->stderr_text);
}

TEST(test_handles)
{
    expect_well(story_run(GO_ON, tell_handles));
}

/* Queries the driver about a function that is not loaded yet, in a capture that forbids unsafe calls. */
static int tell_capture(void)
{
    CUresult (*begin)(CUstream, CUstreamCaptureMode) = (__typeof__(begin))story_symbol("cuStreamBeginCapture_v2");
    CUresult (*end)(CUstream, CUgraph *) = (__typeof__(end))story_symbol("cuStreamEndCapture");
    CUgraph graph = NULL;
    int n = 10;
    CUstream stream = story_stream();
    void *in = story_buffer("input", 4000, stream), *out = story_buffer("output", 4000, stream);
    CUfunction function = function_of("gpu_read_past");
    story_ok(begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    launch(function, 1, stream, ARGUMENTS(&in, &out, &n));
    story_ok(end(stream, &graph), "cuStreamEndCapture");
    story_check(graph != NULL, "the capture was broken");
    check_facts(in, out, n, "in a capture");
    return 0;
}

TEST(test_capture)
{
    expect_well(story_run(GO_ON, tell_capture));
}

int main(int argc, char **argv)
{
    story_require_gpu();
    return test_run(argc, argv);
}
