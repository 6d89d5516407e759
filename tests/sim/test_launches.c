/* Faults of kernels whose launches are on record: what the report gains. unit.golden has which of them it may have been. */
#include "child.h"

#include <sim.h>

#include "launch/launch.h"

#define COUNT 1000

static unsigned number(const cusim_thread *t)
{
    return t->block_index[0] * t->block[0] + t->thread_index[0];
}

static void copy_past(const cusim_thread *t, void *const *arguments)
{
    const volatile float *in = *(const volatile float *const *)arguments[0];
    volatile float *out = *(volatile float *const *)arguments[1];
    int n = *(const int *)arguments[2];
    if ((int)number(t) <= n)
        out[number(t)] = (int)number(t) < n ? in[number(t)] : 0;
}

static const size_t two_pointers_and_count[] = {8, 8, 4};

static CUmodule module;
static CUcontext context;

static void start(const char *options)
{
    static const cusim_kernel kernels[] = {
        {"_Z4copyPKfPfi", copy_past, two_pointers_and_count, 3, "model.cu", 12, 4, 0, 0},
        {"copy_last", copy_past, two_pointers_and_count, 3, "model.cu", 28, 4, 0, 1},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        cusim_register_kernel(&kernels[i]);
    CHECK_OK(cufence_init(options));
    context = use_device(0);
    CHECK_CU(cuModuleLoadData(&module, "any"));
}

static char *allocate(void)
{
    void *pointer = NULL;
    CHECK_OK(cufence_malloc(&pointer, COUNT * 4, 0, NULL));
    CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)pointer, 0, COUNT * 4));
    CHECK_CU(cuStreamSynchronize(NULL));
    return pointer;
}

/* Launches as a program under the hooks does; or, with is_real = 0, goes on record only. */
__attribute__((noinline)) static void launch_or_record(const char *kernel, void *in, void *out, int n, int is_real)
{
    CUfunction function;
    void *arguments[] = {&in, &out, &n};
    CHECK_CU(cuModuleGetFunction(&function, module, kernel));
    const struct launch_call call = {.function = function, .grid = {8, 1, 1}, .block = {128, 1, 1}, .parameters = arguments};
    launch_record(context_of(context), &call);
    if (is_real)
        CHECK_CU(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL));
}

static void launch(const char *kernel, void *in, void *out, int n)
{
    launch_or_record(kernel, in, out, n, 1);
}

static char text[8192];

static void settle(void)
{
    cuCtxSynchronize();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    CHECK(cufence_fault_count() == 1);
    CHECK(cufence_last_report(text, sizeof text) <= sizeof text);
}

/* A line of the report that has all these, in this order; certainty behind them. */
static int has_line(const char *first, const char *second, const char *third)
{
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        char copy[512];
        snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
        const char *at = strstr(copy, first);
        at = at ? strstr(at, second) : NULL;
        if (at && strstr(at, third))
            return 1;
    }
    return 0;
}

STORY(says_arguments_place_and_rank)
{
    setenv("RANK", "3", 1);
    start("on_fault=error/0");
    char *in = allocate(), *out = allocate();
    launch("_Z4copyPKfPfi", out, in, 10);
    launch("_Z4copyPKfPfi", in, out, COUNT);
    settle();
    CHECK(has_line("on GPU 0", "), rank 3", ""));
    CHECK(has_line("kernel", "copy<<<(8,1,1), (128,1,1)>>>", "exact"));
    CHECK(has_line("", "argument 1 points to this buffer", ""));
    CHECK(has_line("launched at", "test_launches.c", "exact") || has_line("launched at", "launch", "exact"));
    CHECK(has_line("arguments", "0  buffer #1 +0, 4000 bytes", "exact"));
    CHECK(has_line("", "1  buffer #2 +0, 4000 bytes", ""));
    CHECK(has_line("", "2  1000", ""));
}

/* The stacks of the three differ in what lies between the return addresses, their frames do not. */
STORY(knows_launches_of_one_place)
{
    start("on_fault=error/0");
    char *in = allocate(), *out = allocate();
    for (int i = 0; i < 3; i++)
        launch_or_record("_Z4copyPKfPfi", in, out, COUNT, i == 2);
    settle();
    CHECK(has_line("launched at", "launch", "derived"));
    CHECK(!strstr(text, "launches that it may have been"));
}

STORY(knows_launches_of_two_places)
{
    start("on_fault=error/0");
    char *in = allocate(), *out = allocate();
    launch_or_record("_Z4copyPKfPfi", in, out, COUNT, 0);
    launch_or_record("_Z4copyPKfPfi", in, out, COUNT, 1);
    settle();
    CHECK(has_line("launched at", "launch", "candidate"));
    CHECK(has_line("the newest of 2 launches that it may have been", "", ""));
    CHECK(has_line("arguments", "0  buffer #1 +0, 4000 bytes", "exact"));
}

/* The launch that faults, then `others`, then the fault; says whether the report knows the launch. */
static int is_found_behind(const char *options, int others)
{
    CUfunction function;
    int n = COUNT;
    start(options);
    char *in = allocate(), *out = allocate();
    void *arguments[] = {&in, &out, &n};
    launch_or_record("_Z4copyPKfPfi", in, out, COUNT, 0);
    for (int i = 0; i < others; i++)
        launch_or_record("_Z4copyPKfPfi", out, in, 10, 0);
    CHECK_CU(cuModuleGetFunction(&function, module, "_Z4copyPKfPfi"));
    CHECK_CU(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL));
    settle();
    return has_line("launched", "by thread", "on stream 0x0") && has_line("launched at", "launch", "exact");
}

/* As many launches wait for the device as several streams take, when the first of them faults. */
STORY(finds_the_launch_behind_thousands)
{
    CHECK(is_found_behind("on_fault=error/0,remember=65536/16384", 4000));
}

STORY(keeps_a_quarter_without_python)
{
    CHECK(is_found_behind("on_fault=error/0,remember=65536/64", 15));
}

STORY(keeps_no_more_than_that)
{
    CHECK(!is_found_behind("on_fault=error/0,remember=65536/64", 16));
}

STORY(without_a_ring)
{
    start("on_fault=error/0,remember=65536/0");
    char *in = allocate(), *out = allocate();
    launch("_Z4copyPKfPfi", in, out, COUNT);
    CHECK(launch_count(context_of(context)) == 1);
    settle();
    CHECK(has_line("kernel", "copy<<<(8,1,1), (128,1,1)>>>", "exact"));
    CHECK(has_line("", "argument word 1 points to this buffer", ""));
    CHECK(!strstr(text, "launched") && !strstr(text, "arguments"));
}

/* A kernel that is launched into a capture, with a record of it or without. */
static CUgraph capture(CUstream *stream, const char *kernel, int n, int is_recorded)
{
    CUgraph graph = NULL;
    CUfunction function;
    char *in = allocate(), *out = allocate();
    void *arguments[] = {&in, &out, &n};
    CHECK_CU(cuModuleGetFunction(&function, module, kernel));
    CHECK_CU(cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    CHECK_CU(cuStreamBeginCapture(*stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const struct launch_call call = {.function = function, .stream = *stream, .parameters = arguments};
    if (is_recorded)
        launch_record(context_of(context), &call);
    CHECK_CU(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, *stream, arguments, NULL));
    CHECK_CU(cuStreamEndCapture(*stream, &graph));
    return graph;
}

/* The kernel itself was never launched: it is in a graph. */
STORY(names_the_launch_of_a_graph)
{
    CUstream stream;
    CUgraphExec exec;
    start("on_fault=error/0");
    CHECK_CU(cuGraphInstantiate(&exec, capture(&stream, "_Z4copyPKfPfi", COUNT, 0), 0));
    launch_record_graph(context_of(context), exec, stream, NULL);
    CHECK_CU(cuGraphLaunch(exec, stream));
    settle();
    CHECK(has_line("launched at", "perhaps in this graph", "candidate"));
}

/* Recording asks the driver inside a capture too, which must not break it. */
STORY(records_inside_a_capture)
{
    CUstream stream;
    start("on_fault=error/0");
    CHECK(capture(&stream, "copy_last", 10, 1));
    CHECK(launch_count(context_of(context)) == 1);
}

TEST_CONCURRENTLY
