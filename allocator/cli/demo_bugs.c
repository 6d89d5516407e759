#include "demo_bugs.h"

#include <cuda.h>
#include <cufence.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef CUFENCE_NO_KERNELS
const int planted_has_kernels = 0;
static const unsigned char demo_fatbin[1]; /* the simulated device looks for no code in it */
#else
const int planted_has_kernels = 1;
#include "kernels/demo.h"
#endif

enum { COUNT = 1000, BLOCK = 128, BLUR_RADIUS = 20000, TEXT_LENGTH = 1001, RETIRE_MS = 5000 };

/* ---- the driver ---- */

static void *driver_library;

static void *find(const char *name)
{
    void *function = dlsym(driver_library, name);
    if (function)
        return function;
    fprintf(stderr, "planted program: the driver has no %s\n", name);
    exit(1);
}

static void check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "planted program: %s: error %d\n", call, (int)result);
    exit(1);
}

/* Calls a function of the driver, in the version that cuda.h means. */
#define NAME(function) #function
#define CALL_UNCHECKED(function, ...) ((__typeof__(&(function)))find(NAME(function)))(__VA_ARGS__)
#define CALL(function, ...) check(CALL_UNCHECKED(function, __VA_ARGS__), #function)

/* ---- cufence, which may not be there ---- */

static void *cufence_function(const char *name)
{
    static const char *const names[] = {"libcufence.so.0", "libcufence.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

/* NULL: the one before it again. */
static void set_label(const char *label)
{
    __typeof__(&cufence_label_push) push = (__typeof__(push))cufence_function("cufence_label_push");
    __typeof__(&cufence_label_pop) pop = (__typeof__(pop))cufence_function("cufence_label_pop");
    if (label && push)
        push(label);
    if (!label && pop)
        pop();
}

/* A background thread unmaps a freed buffer once the stream has passed the free. Waits for it, so that the demo always shows
 * the same. */
static void await_unmapped(CUdeviceptr freed)
{
    const struct timespec millisecond = {0, 1000000};
    __typeof__(&cufence_describe) describe = (__typeof__(describe))cufence_function("cufence_describe");
    cufence_description what = {.struct_size = sizeof what};
    for (int i = 0; describe && i < RETIRE_MS; i++) {
        if (describe((const void *)(uintptr_t)freed, &what) == CUFENCE_OK && what.place == CUFENCE_PLACE_FREED &&
            !what.buffer.is_mapped)
            return;
        nanosleep(&millisecond, NULL);
    }
}

/* ---- the program's own functions, which a report shows ---- */

CUdeviceptr plant_buffer(const char *label, size_t bytes)
{
    CUdeviceptr buffer;
    set_label(label);
    CALL(cuMemAlloc, &buffer, bytes);
    CALL(cuMemsetD8, buffer, 0, bytes);
    set_label(NULL);
    return buffer;
}

/* A buffer of COUNT words, of which element `i` is values[i]. */
CUdeviceptr plant_words(const char *label, const void *values)
{
    CUdeviceptr buffer = plant_buffer(label, COUNT * sizeof(float));
    CALL(cuMemcpyHtoD, buffer, values, COUNT * sizeof(float));
    return buffer;
}

/* Samples from -417 to 582, one of which is 0. */
CUdeviceptr plant_samples(void)
{
    static float samples[COUNT]; /* not on the stack, of which a report reads only the top */
    for (int i = 0; i < COUNT; i++)
        samples[i] = (float)(i - 417);
    CUdeviceptr buffer = plant_words("samples", samples);
    return buffer;
}

/* Waits for all that comes before its launch, so that the demo always shows the same: the pattern around a buffer may be
 * written late on a busy machine, as cuMemAlloc does not wait long for it. */
CUfunction plant_kernel(const char *name)
{
    CUmodule module;
    CUfunction function;
    CALL(cuCtxSynchronize);
    CALL(cuModuleLoadData, &module, demo_fatbin);
    CALL(cuModuleGetFunction, &function, module, name);
    return function;
}

/* One thread for each element, and some more. A macro, so that the stack of the launch begins in the function that is wrong. */
#define LAUNCH(kernel, stream, ...)                                                                                            \
    CALL(cuLaunchKernel, kernel, (COUNT + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, ((void *[]){__VA_ARGS__}), NULL)

void plant_overrun(void)
{
    static int values[COUNT];
    int rows = COUNT, radius = BLUR_RADIUS;
    for (int i = 0; i < COUNT; i++)
        values[i] = 1 + i % 7;
    CUdeviceptr lengths = plant_words("row lengths", values);
    CUdeviceptr offsets = plant_buffer("row offsets", COUNT * sizeof(int));
    CUdeviceptr blurred = plant_buffer("blurred lengths", COUNT * sizeof(float));
    LAUNCH(plant_kernel("_Z12demo_overrunPKiPiPfii"), NULL, &lengths, &offsets, &blurred, &rows, &radius);
}

void plant_underrun(void)
{
    int count = COUNT;
    CUdeviceptr samples = plant_samples();
    CUdeviceptr smooth = plant_buffer("smoothed samples", COUNT * sizeof(float));
    LAUNCH(plant_kernel("_Z13demo_underrunPKfPfi"), NULL, &samples, &smooth, &count);
}

static const char look_up[] = "_Z19demo_use_after_freePKfPKiPfi";

/* What the kernel of look-ups is given: pointers to these are its arguments. */
struct look_up {
    CUdeviceptr table, keys, values;
    int count;
};

struct look_up plant_table(void)
{
    static int keys[COUNT];
    for (int i = 0; i < COUNT; i++)
        keys[i] = COUNT - 1 - i;
    struct look_up made = {.count = COUNT};
    made.table = plant_buffer("look-up table", COUNT * sizeof(float));
    made.keys = plant_words("keys", keys);
    made.values = plant_buffer("values", COUNT * sizeof(float));
    return made;
}

void plant_use_after_free(void)
{
    struct look_up it = plant_table();
    CALL(cuMemFree, it.table);
    await_unmapped(it.table);
    LAUNCH(plant_kernel(look_up), NULL, &it.table, &it.keys, &it.values, &it.count);
}

void plant_graph(void)
{
    struct look_up it = plant_table();
    CUfunction kernel = plant_kernel(look_up);
    CUstream stream;
    CUgraph graph;
    CUgraphExec executable;
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CALL(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    LAUNCH(kernel, stream, &it.table, &it.keys, &it.values, &it.count);
    CALL(cuStreamEndCapture, stream, &graph);
    CALL(cuGraphInstantiate, &executable, graph, 0);
    CALL(cuGraphLaunch, executable, stream);
    CALL(cuStreamSynchronize, stream);
    CALL(cuMemFree, it.table);
    await_unmapped(it.table);
    CALL(cuGraphLaunch, executable, stream);
}

void plant_slack_write(void)
{
    int length = TEXT_LENGTH;
    CUdeviceptr text = plant_buffer("text", TEXT_LENGTH);
    CUdeviceptr copy = plant_buffer("copy", TEXT_LENGTH);
    CALL(cuMemsetD8, text, 'x', TEXT_LENGTH);
    LAUNCH(plant_kernel("_Z16demo_slack_writePKcPci"), NULL, &text, &copy, &length);
}

void plant_stream_race(void)
{
    int count = COUNT;
    CUstream own, side;
    CUdeviceptr samples;
    CALL(cuStreamCreate, &own, CU_STREAM_NON_BLOCKING);
    CALL(cuStreamCreate, &side, CU_STREAM_NON_BLOCKING);
    CUdeviceptr squares = plant_buffer("squares", COUNT * sizeof(float));
    set_label("samples");
    CALL(cuMemAllocAsync, &samples, COUNT * sizeof(float), own);
    set_label(NULL);
    CALL(cuMemsetD32Async, samples, 0x3f800000, COUNT, own);
    CALL(cuStreamSynchronize, own);
    LAUNCH(plant_kernel("_Z16demo_stream_racePKfPfi"), side, &samples, &squares, &count);
    CALL(cuMemFreeAsync, samples, own); /* without an event behind the launch on `side` */
}

void plant_first_nan(void)
{
    int count = COUNT;
    CUdeviceptr samples = plant_samples();
    CUdeviceptr signs = plant_buffer("signs", COUNT * sizeof(float));
    LAUNCH(plant_kernel("_Z14demo_first_nanPKfPfi"), NULL, &samples, &signs, &count);
}

static const struct {
    const char *name;
    void (*play)(void);
} bugs[] = {
    {"overrun", plant_overrun},
    {"underrun", plant_underrun},
    {"use-after-free", plant_use_after_free},
    {"slack-write", plant_slack_write},
    {"stream-race", plant_stream_race},
    {"first-nan", plant_first_nan},
    {"graph", plant_graph},
};

/* Uses the first device, without a word about the error that the driver returns for the planted fault. */
int planted_main(const char *bug, const char *library)
{
    CUdevice device;
    CUcontext context;
    driver_library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!driver_library) {
        fprintf(stderr, "planted program: %s\n", dlerror());
        return 1;
    }
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++)
        if (!strcmp(bugs[i].name, bug))
            bugs[i].play();
    CALL_UNCHECKED(cuCtxSynchronize);
    return 0; /* the process's end frees the buffers */
}
