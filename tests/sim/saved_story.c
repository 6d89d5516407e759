/* A program that knows nothing of cufence, for test_saved.c: STORY... plays the stories in order. Its kernels are those of
 * rerun_kernels.c. */
#include "plain_program.h"

static CUdeviceptr allocate(size_t bytes)
{
    CUdeviceptr made;
    CALL(cuMemAlloc_v2, &made, bytes);
    CALL(cuMemsetD8_v2, made, 0, bytes);
    return made;
}

static CUdeviceptr allocate_filled(void)
{
    float numbers[COUNT];
    CUdeviceptr made = allocate(sizeof numbers);
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)(i + 1);
    CALL(cuMemcpyHtoD_v2, made, numbers, sizeof numbers);
    return made;
}

static void launch_function(CUfunction function, void **arguments)
{
    CALL(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL);
}

static void launch(const char *name, void **arguments)
{
    CUfunction function;
    CALL(cuModuleGetFunction, &function, module, name);
    launch_function(function, arguments);
}

STORY(scale)
{
    CUdeviceptr in = allocate_filled(), out = allocate(COUNT * 4);
    for (int i = 0; i < 6; i++)
        launch("_Z5scalePKfPffi", (void *[]){&in, &out, &(float){2}, &(int){COUNT}});
}

/* One kernel in three shapes: another grid, and larger buffers; once again the first. */
STORY(shapes)
{
    CUfunction function;
    CUdeviceptr in = allocate_filled(), out = allocate(COUNT * 4), large = allocate(COUNT * 8);
    CALL(cuModuleGetFunction, &function, module, "_Z5scalePKfPffi");
    for (int i = 0; i < 4; i++) {
        void *arguments[] = {&in, i == 2 ? &large : &out, &(float){2}, &(int){COUNT}};
        CALL(cuLaunchKernel, function, i == 1 ? 16 : 8, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL);
    }
}

/* The last 12 bytes before the end of the mapping are no buffer's. */
STORY(odd)
{
    CUdeviceptr out = allocate((COUNT + 1) * 4);
    launch("write_last", (void *[]){&out, &(int){COUNT}});
}

/* Buffers that share a page, with small=pack. */
STORY(packed)
{
    CUdeviceptr in = 0, out = 0;
    int n = COUNT;
    for (int i = 0; i < 64; i++) { /* a few of each place share none */
        in = allocate_filled();
        out = allocate(COUNT * 4);
    }
    launch("_Z5scalePKfPffi", (void *[]){&in, &out, &(float){2}, &n});
    CUdeviceptr large = allocate(4 << 20); /* it shares no page, and leads to one that does */
    CALL(cuMemcpyHtoD_v2, large + (4 << 20) - 16, &out, sizeof out);
    CALL(cuMemcpyHtoD_v2, large + 8, &large, sizeof large);
    CALL(cuMemcpyHtoD_v2, large + 16, &out, sizeof out);
    n = 0;
    launch("add_by_table", (void *[]){&large, &n});
}

/* A launch before the element whose number is in the first one. */
STORY(indexed)
{
    CUdeviceptr table = allocate(COUNT * 4 + 4); /* there is slack on both sides */
    int n = 0;
    launch("write_indexed", (void *[]){&table, &n});
}

STORY(waver)
{
    CUdeviceptr out = allocate(COUNT * 4);
    launch("_Z5waverPfi", (void *[]){&out, &(int){COUNT}});
}

/* Two tables lead to the buffer; a third buffer has nothing to do with it. The launch is followed by one that changes it. */
STORY(table)
{
    CUdeviceptr out = allocate_filled(), inner = allocate(64), outer = allocate(16), other = allocate(4096);
    CALL(cuMemcpyHtoD_v2, inner + 16, &out, sizeof out);
    CALL(cuMemcpyHtoD_v2, outer + 8, &inner, sizeof inner);
    launch("add_by_table", (void *[]){&outer, &(int){COUNT}});
    CALL(cuMemsetD8_v2, out, 9, 64);
    CALL(cuMemsetD8_v2, other, 9, 64);
}

STORY(pinned)
{
    CUdeviceptr out = allocate(COUNT * 4);
    int *hosted = NULL;
    CALL(cuMemHostAlloc, (void **)&hosted, 8, CU_MEMHOSTALLOC_DEVICEMAP);
    hosted[0] = COUNT;
    hosted[1] = 7;
    launch("count_hosted", (void *[]){&out, &hosted});
    CALL(cuCtxSynchronize);
    hosted[1] = 9;
}

/* The last two elements lie beside the buffer. */
STORY(typed)
{
    CUdeviceptr in = allocate_filled(), out = allocate((COUNT - 2) * 4);
    CALL(cuCtxSynchronize); /* the pattern is there */
    launch("_Z5scalePKfPffi", (void *[]){&in, &out, &(float){2}, &(int){COUNT}});
    CALL(cuMemFree_v2, out);
}

/* Right behind the buffer, by the stream itself. */
STORY(value)
{
    CALL(cuStreamWriteValue32_v2, NULL, allocate(COUNT) + COUNT, 5, 0);
}

/* The second of two. */
STORY(values)
{
    CUdeviceptr to = allocate(COUNT);
    CUstreamBatchMemOpParams writes[2] = {{.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = to, {5}}},
                                          {.writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = to + COUNT, {5}}}};
    CALL(cuStreamBatchMemOp_v2, NULL, 2, writes, 0);
}

/* What the tables lead to is more than there is room for at first. The second launch waits for the files of the first one. */
STORY(large)
{
    CUdeviceptr out = allocate((size_t)20 << 20), inner = allocate(64), outer = allocate(16);
    CALL(cuMemcpyHtoD_v2, inner + 16, &out, sizeof out);
    CALL(cuMemcpyHtoD_v2, outer + 8, &inner, sizeof inner);
    for (int i = 0; i < 2; i++) {
        launch("add_by_table", (void *[]){&outer, &(int){COUNT}});
        CALL(cuCtxSynchronize);
        for (int waited = 0; access("s/000001-add_by_table/launch.json", F_OK) != 0 && waited < 30000; waited++)
            usleep(1000);
    }
}

/* As the runtime has it: a library, whose kernel is launched without a function. */
STORY(library)
{
    static const char code[] = "//";
    CUlibrary loaded;
    CUkernel kernel;
    CUdeviceptr in = allocate_filled(), out = allocate(COUNT * 4);
    CALL(cuLibraryLoadData, &loaded, code, NULL, NULL, 0, NULL, NULL, 0);
    CALL(cuLibraryGetKernel, &kernel, loaded, "_Z5scalePKfPffi");
    launch_function((CUfunction)kernel, (void *[]){&in, &out, &(float){3}, &(int){COUNT}});
    CALL(cuCtxSynchronize);
    CALL(cuLibraryUnload, loaded);
}

/* The module is gone by the time the files are written. */
STORY(unloaded)
{
    char *code = strdup("text that is freed");
    CUmodule loaded;
    CUfunction function;
    CUdeviceptr out = allocate(COUNT * 4);
    int n = COUNT;
    CALL(cuModuleLoadData, &loaded, code);
    free(code);
    CALL(cuModuleGetFunction, &function, loaded, "write_last");
    n = COUNT - 1;
    launch_function(function, (void *[]){&out, &n});
    CALL(cuModuleUnload, loaded);
}

/* The kernel is in a file in the folder. */
static CUfunction load_file(const char *name, const char *kernel)
{
    CUmodule loaded;
    CUfunction function;
    char code[1 << 16];
    FILE *file = fopen(name, "rb");
    if (!file || fread(code, 1, sizeof code, file) == 0)
        exit(3);
    fclose(file);
    CALL(cuModuleLoadData, &loaded, code);
    CALL(cuModuleGetFunction, &function, loaded, kernel);
    return function;
}

static CUfunction load_fat(void)
{
    return load_file("write_last.fatbin", "write_last");
}

STORY(fat)
{
    CUdeviceptr out = allocate(COUNT * 4);
    int n = COUNT - 1;
    launch_function(load_fat(), (void *[]){&out, &n});
}

/* One of the launches writes the element past the end, which lies in the mapping. */
STORY(slack)
{
    CUfunction function = load_fat();
    CUdeviceptr out = allocate((COUNT + 1) * 4);
    CALL(cuCtxSynchronize); /* the pattern is there, however busy the machine is */
    for (int i = 0; i < 4; i++)
        launch_function(function, (void *[]){&out, &(int){i == 1 ? COUNT + 1 : COUNT}});
}

/* The element past the end, in the mapping, of a buffer that is freed before anybody looks: by cuMemFree() ... */
static void free_written(void)
{
    CUfunction function = load_fat();
    CUdeviceptr out = allocate((COUNT + 1) * 4);
    CALL(cuCtxSynchronize);
    launch_function(function, (void *[]){&out, &(int){COUNT + 1}});
    CALL(cuMemFree_v2, out);
}

STORY(slack_freed)
{
    free_written();
}

/* ... in a context that ends with it ... */
STORY(slack_ended)
{
    CUcontext context;
    CALL(cuCtxCreate_v4, &context, NULL, 0, 0);
    free_written();
    CALL(cuCtxDestroy_v2, context);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
}

/* ... in the order of a stream, on which the next buffer has its memory. */
STORY(slack_reused)
{
    CUfunction function = load_fat();
    CUstream stream;
    CUdeviceptr out, next;
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CALL(cuMemAllocAsync, &out, (COUNT + 1) * 4, stream);
    CALL(cuCtxSynchronize);
    CALL(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 0, stream, (void *[]){&out, &(int){COUNT + 1}}, NULL);
    CALL(cuMemFreeAsync, out, stream);
    CALL(cuMemAllocAsync, &next, COUNT * 4 + 200, stream);
    CALL(cuMemsetD8Async, next, 7, COUNT * 4 + 200, stream);
}

/* SHAPE="KERNEL BYTES N" in the environment: a launch with a buffer of so many bytes, which is freed. The kernel is in
 * shape.cubin, or there is none yet. BESIDE=pinned: it is given host memory, too; =other: a stream of its own has the buffer.
 */
STORY(shape)
{
    char kernel[32];
    unsigned bytes;
    long n; /* in a place of 8 bytes, too */
    if (sscanf(getenv("SHAPE"), "%31s %u %ld", kernel, &bytes, &n) != 3)
        exit(3);
    const char *beside = getenv("BESIDE");
    void *host = NULL;
    int is_there = access("shape.cubin", R_OK) == 0, has_host = beside && !strcmp(beside, "pinned");
    CUdeviceptr out = allocate(bytes);
    CUstream other = NULL;
    CALL(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
    CALL(cuMemHostAlloc, &host, 64, CU_MEMHOSTALLOC_DEVICEMAP);
    CALL(cuCtxSynchronize);
    void *arguments[] = {&out, has_host ? (void *)&host : &n, &n};
    if (is_there)
        launch_function(load_file("shape.cubin", kernel), arguments);
    else
        launch(kernel, arguments);
    CALL(cuCtxSynchronize);
    if (is_there && beside && !strcmp(beside, "other"))
        CALL(cuLaunchKernel, load_file("shape.cubin", kernel), 1, 1, 1, 1, 1, 1, 0, other, arguments, NULL);
    CALL(cuStreamSynchronize, other);
    CALL(cuMemFree_v2, out);
}

/* The same of a kernel that reads another buffer, which is freed first. */
STORY(input)
{
    static const char kernel[] = "_Z5scalePKfPffi";
    int is_there = access("shape.cubin", R_OK) == 0, n = COUNT + 1 + is_there;
    CUdeviceptr in = allocate(COUNT * 8), out = allocate((COUNT + (size_t)is_there) * 4);
    CALL(cuCtxSynchronize);
    void *arguments[] = {&in, &out, &(float){2}, &n};
    if (is_there)
        launch_function(load_file("shape.cubin", kernel), arguments);
    else
        launch(kernel, arguments);
    CALL(cuMemFree_v2, in);
    CALL(cuMemFree_v2, out);
}

/* The program goes on. */
STORY(later)
{
    usleep(500000);
}

STORY(managed)
{
    CUdeviceptr managed;
    int n = COUNT - 1;
    CALL(cuMemAllocManaged, &managed, COUNT * 4, CU_MEM_ATTACH_GLOBAL);
    for (int i = 0; i < 2; i++)
        launch("write_last", (void *[]){&managed, &n});
}

/* Overruns on half of the device: on a stream of its own, or on the default stream there. */
static void overrun_in_green(int has_stream)
{
    CUdevResource all, halves[2];
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUcontext context;
    CUstream stream = NULL;
    CUfunction function;
    unsigned parts = 2;
    CALL(cuDeviceGetDevResource, 0, &all, CU_DEV_RESOURCE_TYPE_SM);
    CALL(cuDevSmResourceSplitByCount, halves, &parts, &all, NULL, 0, all.sm.smCount / 2);
    CALL(cuDevResourceGenerateDesc, &description, halves, 1);
    CALL(cuGreenCtxCreate, &green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
    CALL(cuCtxFromGreenCtx, &context, green);
    CALL(cuCtxSetCurrent, context);
    if (has_stream)
        CALL(cuGreenCtxStreamCreate, &stream, green, CU_STREAM_NON_BLOCKING, 0);
    CUdeviceptr out = allocate(COUNT * 4);
    CALL(cuCtxSynchronize); /* the zeros are written on the default stream */
    CALL(cuModuleGetFunction, &function, module, "write_last");
    CALL(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 0, stream, (void *[]){&out, &(int){COUNT}}, NULL);
}

STORY(green)
{
    overrun_in_green(0);
}

STORY(green_stream)
{
    overrun_in_green(1);
}

/* In a context of the program's own. */
STORY(own_context)
{
    CUcontext context;
    CUmodule loaded;
    CUfunction function;
    CALL(cuCtxCreate_v4, &context, NULL, 0, 0);
    CALL(cuModuleLoadData, &loaded, "any");
    CALL(cuModuleGetFunction, &function, loaded, "write_last");
    CUdeviceptr out = allocate(COUNT * 4);
    launch_function(function, (void *[]){&out, &(int){COUNT}});
}

int main(int argc, char **argv)
{
    if (!open_driver())
        return 2;
    open_device();
    tell_all(argc, argv);
    return 0;
}
