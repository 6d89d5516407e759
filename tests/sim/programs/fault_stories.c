/* Stories about faults: who sees them, what follows, and programs that want a core dump for themselves. */
#include "program.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static CUdeviceptr allocate(void)
{
    CUdeviceptr address;
    MUST(cu.cuMemAlloc(&address, 4096));
    return address;
}

static CUresult synchronise(const char *how, CUdeviceptr address)
{
    uint32_t word;
    CUevent event;
    if (strcmp(how, "stream") == 0)
        return cu.cuStreamSynchronize(NULL);
    if (strcmp(how, "event") == 0) {
        MUST(cu.cuEventCreate(&event, 0));
        MUST(cu.cuEventRecord(event, NULL));
        return cu.cuEventSynchronize(event);
    }
    if (strcmp(how, "copy") == 0)
        return cu.cuMemcpyDtoH(&word, address, 4);
    if (strcmp(how, "free") == 0)
        return cu.cuMemFree(address);
    if (strcmp(how, "none") == 0)
        return CUDA_SUCCESS;
    return cu.cuCtxSynchronize();
}

/* overrun SYNCHRONISATION: 4 bytes are stored right behind a buffer of 4096. */
STORY(overrun)
{
    const char *how = count > 2 ? arguments[2] : "context";
    start();
    CUdeviceptr address = allocate();
    MUST(store(address + 4092, 7, NULL));
    MUST(store(address + 4096, 8, NULL));
    return say(how, synchronise(how, address)) == CUDA_SUCCESS ? 0 : 1;
}

/* 4 bytes are stored past the end of a buffer as the driver allocates it, where nothing is mapped. */
static int store_beyond(void)
{
    MUST(store(allocate() + ((CUdeviceptr)2 << 20) + 512, 7, NULL));
    return say("context", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}

STORY(beyond)
{
    start();
    return store_beyond();
}

/* end_at_once HOW: the program has waited for its kernel and ends without exit handlers, or goes on as another program. */
STORY(end_at_once)
{
    char *const next[] = {"sh", "-c", "exit 7", NULL};
    start();
    CUdeviceptr address = allocate();
    MUST(store(address + 4092, 7, NULL));
    MUST(store(address + 4096, 8, NULL));
    say("context", cu.cuCtxSynchronize());
    fputs("it is told of the fault\n", stderr);
    fflush(stdout);
#define END(how, ...)                                                                                                          \
    if (strcmp(arguments[2], #how) == 0)                                                                                       \
        how(__VA_ARGS__);
    END(_exit, 7)
    END(abort)
    END(quick_exit, 7)
    END(execv, "/bin/sh", next)
    END(execve, "/bin/sh", next, environ)
    END(execvp, "sh", next)
    END(execvpe, "sh", next, environ)
    END(execl, "/bin/sh", next[0], next[1], next[2], NULL)
    END(execle, "/bin/sh", next[0], next[1], "exit $NEXT", NULL, (char *const[]){"NEXT=7", NULL})
    END(execlp, "sh", next[0], next[1], next[2], NULL)
    END(fexecve, open("/bin/sh", O_RDONLY), next, environ)
    return 8;
}

static void exit_with_7(int signal)
{
    exit(7);
}

/* With on_fault=abort, the handler runs in a thread of cufence's. */
STORY(exit_at_abort)
{
    start();
    signal(SIGABRT, exit_with_7);
    alarm(20);
    MUST(store(allocate() + 4096, 8, NULL));
    return (int)say("context", cu.cuCtxSynchronize()) + pause();
}

/* One kernel is launched in every way, the last time with a fault. */
STORY(ways_to_launch)
{
    CUdeviceptr address;
    start();
    MUST(cu.cuMemAlloc(&address, 4096));
    MUST(store_together(address, 1, NULL));
    MUST(store_configured(address + 4, 2, NULL));
    MUST(store(address + 4096, 3, NULL));
    return say("cuCtxSynchronize", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}

/* other_exception NUMBER: a kernel ends with an exception that involves no buffer. */
STORY(other_exception)
{
    uint32_t exception = count > 2 ? (uint32_t)atoi(arguments[2]) : 0;
    CUmodule module;
    CUfunction raise;
    CUdeviceptr more;
    start();
    MUST(cu.cuModuleLoadData(&module, "an image"));
    MUST(cu.cuModuleGetFunction(&raise, module, "cusim_raise"));
    MUST(cu.cuLaunchKernel(raise, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&exception}, NULL));
    say("cuCtxSynchronize", cu.cuCtxSynchronize());
    say("cuMemAlloc", cu.cuMemAlloc(&more, 16));
    say("cuLaunchKernel", store(0, 1, NULL));
    return say("cuStreamSynchronize", cu.cuStreamSynchronize(NULL)) == CUDA_SUCCESS ? 0 : 1;
}

/* With uaf=strict the background thread unmaps what was freed; the program knows that much of cufence to see when. */
static void await_unmapping(CUdeviceptr address)
{
    const char *options = getenv("CUFENCE_OPTIONS");
    cufence_status (*describe)(const void *, cufence_description *);
    cufence_description where = {.struct_size = sizeof where, .buffer.is_mapped = 1};
    *(void **)&describe = driver_of_cufence("cufence_describe");
    if (describe == NULL || options == NULL || strstr(options, "uaf=strict") == NULL)
        return;
    for (int tries = 0; tries < 3000 && where.buffer.is_mapped; tries++) {
        usleep(10000);
        describe((const void *)(uintptr_t)address, &where);
    }
}

/* Four bugs, in an order in which each mode of `cufence hunt` comes to another one first: before a start, in the slack that
 * align=16 leaves, in freed memory, past an end. */
STORY(several_bugs)
{
    CUdeviceptr begun, uneven, freed, ended;
    start();
    MUST(cu.cuMemAlloc(&begun, 4096));
    MUST(cu.cuMemAlloc(&uneven, 8188));
    MUST(cu.cuMemAlloc(&freed, 12288));
    MUST(cu.cuMemAlloc(&ended, 16384));
    MUST(cu.cuMemFree(freed));
    await_unmapping(freed);
    CUdeviceptr wrong[] = {begun - 4, uneven + 8188, freed, ended + 16384};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        MUST(store(wrong[i], 7, NULL));
        if (say("cuCtxSynchronize", cu.cuCtxSynchronize()) != CUDA_SUCCESS)
            return 1;
    }
    return 0;
}

/* Every call after a fault. What the default stream writes lies apart: where each thread has its own, the streams overlap. */
STORY(after_fault)
{
    CUdeviceptr address, other, more;
    CUstream stream, capturing;
    CUevent event;
    CUgraph graph;
    CUgraphExec executable;
    uint32_t word = 0;
    start();
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    capturing = new_stream();
    MUST(cu.cuEventCreate(&event, 0));
    MUST(cu.cuMemAlloc(&address, 4096));
    MUST(cu.cuMemAllocAsync(&other, 4096, stream));
    MUST(cu.cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(add_one(address, 256, capturing));
    MUST(cu.cuStreamEndCapture(capturing, &graph));
    MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cu.cuEventRecord(event, stream));
    MUST(store(address + 4096, 8, NULL));
    say("the fault", cu.cuCtxSynchronize());
    say("cuMemAlloc", cu.cuMemAlloc(&more, 16));
    say("cuMemAllocAsync", cu.cuMemAllocAsync(&more, 16, stream));
    say("cuMemcpyHtoD", cu.cuMemcpyHtoD(address + 2048, &word, 4));
    say("cuMemcpyDtoH", cu.cuMemcpyDtoH(&word, address + 2048, 4));
    say("cuMemcpyDtoD", cu.cuMemcpyDtoD(address + 2048, other, 4));
    say("cuMemcpyAsync", cu.cuMemcpyAsync(address, other, 4, stream));
    say("cuMemcpyHtoDAsync", cu.cuMemcpyHtoDAsync(address, &word, 4, stream));
    say("cuMemcpyDtoHAsync", cu.cuMemcpyDtoHAsync(&word, address, 4, stream));
    say("cuMemsetD8", cu.cuMemsetD8(address + 2048, 0, 4));
    say("cuMemsetD32Async", cu.cuMemsetD32Async(address, 0, 1, stream));
    say("cuLaunchKernel", store(address, 1, stream));
    say("cuLaunchKernelEx", add_one(address, 4, stream));
    say("cuGraphLaunch", cu.cuGraphLaunch(executable, stream));
    say("cuStreamSynchronize", cu.cuStreamSynchronize(stream));
    say("cuStreamQuery", cu.cuStreamQuery(stream));
    say("cuEventSynchronize", cu.cuEventSynchronize(event));
    say("cuEventQuery", cu.cuEventQuery(event));
    say("cuCtxSynchronize", cu.cuCtxSynchronize());
    say("cuMemFreeAsync", cu.cuMemFreeAsync(other, stream));
    say("cuMemFree", cu.cuMemFree(address));
    return 0;
}

/* ---- programs that want a core dump of the driver for themselves ---- */

/* dump_by_variables FILE FLAGS: sets them itself, and shows what a child sees of them after cuInit. "": is not set. */
STORY(dump_by_variables)
{
    setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
    if (*arguments[2])
        setenv("CUDA_COREDUMP_FILE", arguments[2], 1);
    setenv("CUDA_COREDUMP_GENERATION_FLAGS", arguments[3], 1);
    start();
    fflush(stdout);
    if (system("echo \"$CUDA_ENABLE_COREDUMP_ON_EXCEPTION $CUDA_COREDUMP_FILE $CUDA_COREDUMP_GENERATION_FLAGS\"") != 0)
        return 9;
    return store_beyond();
}

static void set(__typeof__(cu.cuCoredumpSetAttribute) function, CUcoredumpSettings attribute, const void *value, size_t size)
{
    MUST(function(attribute, (void *)(uintptr_t)value, &size));
}

/* dump_by_attributes global|context FILE */
STORY(dump_by_attributes)
{
    static const unsigned char yes = 1;
    static const unsigned flags = CU_COREDUMP_LIGHTWEIGHT_FLAGS | CU_COREDUMP_SKIP_ABORT;
    const int is_global = strcmp(arguments[2], "global") == 0;
    unsigned read = 0;
    unsigned char truth = 0;
    char file[1024] = "";
    size_t file_size = sizeof file, flags_size = sizeof read, one = 1, none = 0;
    driver_find();
    if (is_global)
        MUST(cu.cuInit(0));
    else
        start();
    __typeof__(cu.cuCoredumpSetAttribute) change = is_global ? cu.cuCoredumpSetAttributeGlobal : cu.cuCoredumpSetAttribute;
    __typeof__(cu.cuCoredumpGetAttribute) get = is_global ? cu.cuCoredumpGetAttributeGlobal : cu.cuCoredumpGetAttribute;
    set(change, CU_COREDUMP_FILE, arguments[3], strlen(arguments[3]) + 1);
    set(change, CU_COREDUMP_GENERATION_FLAGS, &flags, sizeof flags);
    set(change, CU_COREDUMP_ENABLE_ON_EXCEPTION, &yes, 1);
    if (!is_global) { /* those of another context are its own */
        CUcontext other;
        MUST(cu.cuCtxCreate(&other, NULL, 0, 0));
        set(change, CU_COREDUMP_FILE, "other", sizeof "other");
        MUST(cu.cuCtxDestroy(other));
    }
    MUST(get(CU_COREDUMP_FILE, file, &file_size));
    MUST(get(CU_COREDUMP_GENERATION_FLAGS, &read, &flags_size));
    printf("%s %zu %u\n", file, file_size, read);
    MUST(get(CU_COREDUMP_TRIGGER_HOST, &truth, &one));
    printf("%d", truth);
    MUST(get(CU_COREDUMP_LIGHTWEIGHT, &truth, &one));
    printf(" %d", truth);
    MUST(get(CU_COREDUMP_ENABLE_ON_EXCEPTION, &truth, &one));
    printf(" %d\n", truth);
    say("room", get(CU_COREDUMP_FILE, file, &one));
    MUST(get(CU_COREDUMP_GENERATION_FLAGS, NULL, &none));
    say("size", none == 4 ? change(CU_COREDUMP_GENERATION_FLAGS, &read, &one) : CUDA_SUCCESS);
    say("none", change(CU_COREDUMP_MAX, &read, &flags_size));
    if (is_global)
        start();
    return store_beyond();
}
