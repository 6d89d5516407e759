/* A program that knows nothing of cufence, for test_values.c and tests/python: STORY... plays the stories in order. */
#include "plain_program.h"

#include <cufence.h>

#include <math.h>

static void *of_cufence(const char *function)
{
    return dlsym(dlopen("libcufence.so.0", RTLD_NOLOAD | RTLD_NOW), function);
}

/* A handler that allocates: nobody gets memory of a device that has been stopped, not even who is told of it first. */
static void tell_and_allocate(const cufence_fault *fault, void *user)
{
    void *memory = NULL;
    (void)user;
    cufence_status status = ((__typeof__(&cufence_malloc))of_cufence("cufence_malloc"))(&memory, 100, fault->device, NULL);
    printf("told, and %s\n", status == CUFENCE_ERROR_FAULTED ? "refused" : "given memory");
}

/* ---- kernels ---- */

static unsigned index_of(const cusim_thread *t)
{
    return t->block_index[0] * t->block[0] + t->thread_index[0];
}

static void scale(const cusim_thread *t, void *const *arguments)
{
    const float *in = *(const float *const *)arguments[0];
    float *out = *(float *const *)arguments[1];
    if ((int)index_of(t) < *(const int *)arguments[3])
        out[index_of(t)] = in[index_of(t)] * *(const float *)arguments[2];
}

/* Minus infinity plus infinity, where the input is 0. */
static void normalise(const cusim_thread *t, void *const *arguments)
{
    const float *in = *(const float *const *)arguments[0];
    float *out = *(float *const *)arguments[1];
    if ((int)index_of(t) < *(const int *)arguments[2])
        out[index_of(t)] = in[index_of(t)] / in[index_of(t)];
}

/* What is behind a mask becomes minus infinity. */
static void mask(const cusim_thread *t, void *const *arguments)
{
    float *out = *(float *const *)arguments[0];
    if ((int)index_of(t) < *(const int *)arguments[1])
        out[index_of(t)] = -INFINITY;
}

/* As PyTorch fills new tensors with deterministic algorithms. */
static void fill_nan(const cusim_thread *t, void *const *arguments)
{
    float *out = *(float *const *)arguments[0];
    if ((int)index_of(t) < *(const int *)arguments[1])
        out[index_of(t)] = NAN;
}

struct two {
    uint64_t count;
    float *out;
    const float *in;
};

/* Takes its pointers in a struct, and its name has no types. */
static void copy(const cusim_thread *t, void *const *arguments)
{
    const struct two *two = arguments[0];
    if (index_of(t) < two->count)
        two->out[index_of(t)] = two->in[index_of(t)];
}

static void halve(const cusim_thread *t, void *const *arguments)
{
    uint16_t *out = *(uint16_t *const *)arguments[0];
    if (index_of(t) < COUNT)
        out[index_of(t)] = 0x3800; /* 0.5 */
}

static void count_up(const cusim_thread *t, void *const *arguments)
{
    int64_t *out = *(int64_t *const *)arguments[0];
    if (index_of(t) < COUNT)
        out[index_of(t)] = (int64_t)index_of(t) - 1;
}

/* The kernel of triton_add.cubin. */
static void add_halves(const cusim_thread *t, void *const *arguments)
{
    uint16_t *out = *(uint16_t *const *)arguments[2];
    if ((int)index_of(t) < *(const int *)arguments[3])
        out[index_of(t)] = 0x4000; /* 1 + 1 */
}

static void slow_scale(const cusim_thread *t, void *const *arguments)
{
    usleep(index_of(t) ? 0 : 300000);
    scale(t, arguments);
}

static const size_t scale_sizes[] = {8, 8, 4, 4}, normalise_sizes[] = {8, 8, 4}, mask_sizes[] = {8, 4},
                    copy_sizes[] = {sizeof(struct two)}, one_pointer[] = {8}, triton_sizes[] = {8, 8, 8, 4, 8, 8};

static const cusim_kernel kernels[] = {
    {.name = "_Z10slow_scalePKfPffi", .function = slow_scale, .argument_bytes = scale_sizes, .argument_count = 4},
    {.name = "_Z5scalePKfPffi", .function = scale, .argument_bytes = scale_sizes, .argument_count = 4},
    {.name = "_Z4moveIfEvPKfPvfi", .function = scale, .argument_bytes = scale_sizes, .argument_count = 4},
    {.name = "_Z9normalisePKfPfi", .function = normalise, .argument_bytes = normalise_sizes, .argument_count = 3},
    {.name = "divide", .function = normalise, .argument_bytes = normalise_sizes, .argument_count = 3},
    {.name = "_Z4maskPfi", .function = mask, .argument_bytes = mask_sizes, .argument_count = 2},
    {.name = "_Z4fillPfi", .function = fill_nan, .argument_bytes = mask_sizes, .argument_count = 2},
    {.name = "copy_two", .function = copy, .argument_bytes = copy_sizes, .argument_count = 1},
    {.name = "_Z5halveP13__nv_bfloat16", .function = halve, .argument_bytes = one_pointer, .argument_count = 1},
    {.name = "_Z5halveP6__half", .function = halve, .argument_bytes = one_pointer, .argument_count = 1},
    {.name = "normalise", .function = normalise, .argument_bytes = normalise_sizes, .argument_count = 3},
    {.name = "add", .function = add_halves, .argument_bytes = triton_sizes, .argument_count = 6},
    {.name = "count_up", .function = count_up, .argument_bytes = one_pointer, .argument_count = 1},
};

/* ---- the driver ---- */

static CUdeviceptr in, out, other;

static CUdeviceptr allocate(size_t bytes)
{
    CUdeviceptr made;
    CALL(cuMemAlloc_v2, &made, bytes);
    return made;
}

static void launch_on(CUstream stream, const char *name, void **arguments)
{
    CUfunction function;
    CALL(cuModuleGetFunction, &function, module, name);
    CALL(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 0, stream, arguments, NULL);
}

static void launch(const char *name, void **arguments)
{
    launch_on(NULL, name, arguments);
}

static void launch_scale(CUdeviceptr from, CUdeviceptr to, float factor)
{
    launch("_Z5scalePKfPffi", (void *[]){&from, &to, &factor, &(int){COUNT}});
}

static void launch_normalise(CUdeviceptr from, CUdeviceptr to)
{
    launch("_Z9normalisePKfPfi", (void *[]){&from, &to, &(int){COUNT}});
}

static void launch_copy(CUdeviceptr from, CUdeviceptr to)
{
    struct two two = {COUNT, (float *)(uintptr_t)to, (const float *)(uintptr_t)from};
    launch("copy_two", (void *[]){&two});
}

/* 1, 2, 3, ...; with a zero at `zero`, if that is not negative. */
static void fill(CUdeviceptr to, int zero)
{
    float numbers[COUNT];
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i == zero ? 0 : (float)(i + 1);
    CALL(cuMemcpyHtoD_v2, to, numbers, sizeof numbers);
}

static void put_nan(CUdeviceptr to, int at)
{
    float nan = NAN;
    CALL(cuMemcpyHtoD_v2, to + (CUdeviceptr)at * 4, &nan, sizeof nan);
}

static void synchronise(void)
{
    CALL(cuCtxSynchronize);
}

/* ---- stories ---- */

STORY(scale)
{
    fill(in, -1);
    launch_scale(in, out, 2);
}

STORY(one_nan)
{
    CALL(cuMemsetD32_v2, in, 0, COUNT);
    put_nan(in, 7);
    launch_scale(in, out, 2);
}

STORY(many)
{
    fill(in, -1);
    for (int i = 0; i < 20; i++)
        launch_scale(in, out, (float)i);
}

/* Its pointers are into buffers, and no multiples of 16. */
STORY(offset)
{
    CUdeviceptr from = in + 400, to = other + 4;
    fill(in, -1);
    launch("_Z5scalePKfPffi", (void *[]){&from, &to, &(float){1}, &(int){900}});
}

STORY(struct)
{
    fill(in, -1);
    launch_copy(in, out);
    synchronise();
    launch_copy(in, out);
}

/* Loads a cubin from the folder; the device runs the kernels above. */
static CUfunction kernel_of(const char *file, const char *name)
{
    static char bytes[1 << 17];
    CUmodule loaded;
    CUfunction function;
    FILE *from = fopen(file, "rb");
    check(from && fread(bytes, 1, sizeof bytes, from) ? CUDA_SUCCESS : CUDA_ERROR_FILE_NOT_FOUND, file);
    fclose(from);
    CALL(cuModuleLoadData, &loaded, bytes);
    CALL(cuModuleGetFunction, &function, loaded, name);
    return function;
}

/* As the Python package does when Triton has loaded a kernel. */
STORY(told)
{
    CUfunction function = kernel_of("triton_add.cubin", "add");
    void (*say)(uint64_t, const char *, const char *) = of_cufence("cufence_torch_kernel");
    CUdeviceptr x = allocate(COUNT * 2), y = allocate(COUNT * 2), o = allocate(COUNT * 2), none = 0;
    say((uint64_t)(uintptr_t)function, "add", "x *kfp16\ny *fp16\no *fp16\nn i32");
    CALL(cuMemsetD16_v2, x, 0x3c00, COUNT);
    CALL(cuMemsetD16_v2, y, 0x3c00, COUNT);
    for (int i = 0; i < 2; i++) {
        CALL(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 0, NULL, ((void *[]){&x, &y, &o, &(int){COUNT}, &none, &none}),
             NULL);
        say((uint64_t)(uintptr_t)function, "add", "x *fp64\nn i32"); /* of another kernel, so it does not fit */
    }
}

STORY(half)
{
    launch("_Z5halveP6__half", (void *[]){&out});
}

STORY(brain_half)
{
    launch("_Z5halveP13__nv_bfloat16", (void *[]){&out});
}

/* Numbers of 8 bytes, of which the first is -1: its bits are those of a NaN. */
STORY(count)
{
    CUdeviceptr counts = allocate(COUNT * 8);
    launch("count_up", (void *[]){&counts});
    synchronise();
    launch("count_up", (void *[]){&counts});
}

static void begin_capture(CUstream stream)
{
    CALL(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static CUgraphExec launch_captured(CUstream stream)
{
    CUgraph graph;
    CUgraphExec executable;
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuGraphInstantiateWithFlags, &executable, graph, 0);
    CALL(cuGraphDestroy, graph);
    CALL(cuGraphLaunch, executable, stream);
    return executable;
}

static void play_graph(int zero, const char *name, void **arguments)
{
    CUstream stream;
    fill(in, zero);
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    begin_capture(stream);
    launch_on(stream, name, arguments);
    launch_on(stream, "_Z4maskPfi", (void *[]){&other, &(int){COUNT}});
    CUgraphExec executable = launch_captured(stream);
    CALL(cuGraphLaunch, executable, stream);
    CALL(cuStreamSynchronize, stream);
    CALL(cuGraphExecDestroy, executable);
}

STORY(graph)
{
    play_graph(-1, "_Z5scalePKfPffi", (void *[]){&in, &out, &(float){3}, &(int){COUNT}});
}

STORY(nan_graph)
{
    play_graph(9, "_Z9normalisePKfPfi", (void *[]){&in, &out, &(int){COUNT}});
}

STORY(fault)
{
    launch("_Z5scalePKfPffi", (void *[]){&in, &out, &(float){1}, &(int){COUNT + 1}});
}

STORY(nan)
{
    fill(in, 417);
    launch_scale(in, other, 1);
    launch_normalise(other, out); /* this one */
    launch_scale(out, other, 2);  /* has it from there */
}

static void tell_slowly(const cufence_fault *fault, void *user)
{
    (void)fault, (void)user;
    usleep(300000);
    puts("told");
}

/* A program that waits for the reports of what it has synchronised with. */
STORY(nan_awaited)
{
    __typeof__(&cufence_wait_reports) wait_reports = of_cufence("cufence_wait_reports");
    ((__typeof__(&cufence_set_fault_handler))of_cufence("cufence_set_fault_handler"))(tell_slowly, NULL);
    fill(in, 417);
    launch_normalise(in, out);
    synchronise();
    puts(wait_reports(60000) == CUFENCE_OK ? "waited" : "late");
}

STORY(nan_told)
{
    ((__typeof__(&cufence_set_fault_handler))of_cufence("cufence_set_fault_handler"))(tell_and_allocate, NULL);
    fill(in, 417);
    launch_normalise(in, out);
    synchronise();
}

/* The program has put it there itself. */
STORY(nan_copied)
{
    fill(in, -1);
    put_nan(in, 7);
    launch_scale(in, out, 1);
    launch_copy(out, other);
}

/* Memory that nobody has written since it was allocated, with NaN of before. */
static CUdeviceptr allocate_stale(void)
{
    CUdeviceptr stale = allocate(COUNT * 4);
    fill(stale, -1);
    put_nan(stale, 0);
    CALL(cuMemFree_v2, stale);
    return allocate(COUNT * 4);
}

STORY(nan_stale)
{
    fill(in, 3);
    launch_normalise(in, allocate_stale());
}

STORY(nan_stale_struct)
{
    launch_copy(allocate_stale(), out);
}

STORY(nan_of_words)
{
    fill(in, 417);
    launch("divide", (void *[]){&in, &out, &(int){COUNT}});
}

/* Words of unknown type: of another size, and integers of which one is -1. */
STORY(nan_of_none)
{
    CUdeviceptr odd = allocate(COUNT * 4 + 1);
    uint32_t integers[COUNT] = {5, (uint32_t)-1, 7};
    struct two two = {COUNT, (float *)(uintptr_t)out, (const float *)(uintptr_t)other};
    fill(in, 417);
    launch("divide", (void *[]){&in, &odd, &(int){COUNT}});
    CALL(cuMemcpyHtoD_v2, other, integers, sizeof integers);
    launch("copy_two", (void *[]){&two});
}

/* Infinity times 0, by a kernel of which only the name says that it works on float32, into memory of as many bytes. */
static void nan_by_name(size_t bytes)
{
    CUdeviceptr to = allocate(bytes);
    CALL(cuMemsetD32_v2, in, 0x7f800000, COUNT);
    launch("_Z4moveIfEvPKfPvfi", (void *[]){&in, &to, &(float){0}, &(int){COUNT - 1}});
}

STORY(nan_named)
{
    nan_by_name(COUNT * 4);
}

STORY(nan_mixed)
{
    nan_by_name(COUNT * 4 + 1);
}

/* Few numbers of float32 whose lower halves are NaN in float16. */
STORY(nan_in_halves)
{
    CALL(cuMemsetD32_v2, in, 0x40007e01, COUNT);
    launch("_Z4moveIfEvPKfPvfi", (void *[]){&in, &out, &(float){1}, &(int){8}});
}

STORY(nan_struct)
{
    fill(in, -1);
    launch_copy(in, out);
    synchronise();
    fill(in, 5);
    launch_normalise(in, other);
    launch_copy(other, out);
}

/* In a graph, by an operation on memory, or by a copy. */
static void put_beside(const char *how, CUdeviceptr to, CUstream stream)
{
    CUstreamBatchMemOpParams write = {.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = to + 28, {0x7fc00000}}};
    int is_graph = !strncmp(how, "graph", 5);
    if (is_graph)
        begin_capture(stream);
    if (!strcmp(how, "value"))
        CALL(cuStreamWriteValue32_v2, stream, to + 28, 0x7fc00000, 0);
    else if (!strcmp(how, "values"))
        CALL(cuStreamBatchMemOp_v2, stream, 1, &write, 0);
    else if (!strcmp(how, "graph set"))
        CALL(cuMemsetD32Async, to + 28, 0x7fc00000, 1, stream);
    else
        CALL(cuMemcpyDtoDAsync_v2, to, out, COUNT * 4, stream);
    if (is_graph)
        launch_captured(stream);
}

/* Two streams write to the halves of a buffer, at the same time or, if the second one waits, in turn. It makes a NaN. */
STORY(nan_beside)
{
    CUstream streams[2];
    CUevent event;
    CUdeviceptr both = allocate(2 * COUNT * 4), half = both + COUNT * 4;
    for (int i = 0; i < 2; i++)
        CALL(cuStreamCreate, &streams[i], CU_STREAM_NON_BLOCKING);
    CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    CALL(cuMemsetD32_v2, both, 0, 2 * COUNT);
    fill(in, 417);
    put_nan(out, 7);
    if (getenv("IN_GRAPH"))
        begin_capture(streams[0]);
    launch_on(streams[0], "_Z10slow_scalePKfPffi", (void *[]){&in, &both, &(float){1}, &(int){COUNT}});
    if (getenv("IN_GRAPH"))
        launch_captured(streams[0]);
    usleep(20000);
    CALL(cuEventRecord, event, streams[0]);
    if (getenv("WAITS"))
        CALL(cuStreamWaitEvent, streams[1], event, 0);
    const char *copies = getenv("COPIES");
    if (copies)
        put_beside(copies, half, streams[1]);
    else
        launch_on(streams[1], "_Z9normalisePKfPfi", (void *[]){&in, &half, &(int){COUNT}});
    synchronise();
}

STORY(mask)
{
    launch("_Z4maskPfi", (void *[]){&out, &(int){COUNT}});
}

STORY(nan_fill)
{
    launch("_Z4fillPfi", (void *[]){&(CUdeviceptr){allocate(COUNT * 4)}, &(int){COUNT}});
}

int main(int argc, char **argv)
{
    if (!open_driver())
        return 2;
    register_kernels(kernels, sizeof kernels / sizeof *kernels);
    open_device();
    in = allocate(COUNT * 4);
    out = allocate(COUNT * 4);
    other = allocate(COUNT * 4);
    tell_all(argc, argv);
    return 0;
}
