/* Programs that read memory which nobody has written, and their twins that do not, for the mode fresh of `cufence hunt`:
 * `unwritten CASE`. */
#include "program.h"

#include <string.h>

enum { COUNT = 256, WRITTEN = 200 };

static CUmodule module;

/* ---- kernels: (from, to, count, value) ---- */

#define KERNEL(name)                                                                                                           \
    static void name(const cusim_thread *thread, void *const *arguments)                                                       \
    {                                                                                                                          \
        uint32_t i = thread->block_index[0] * thread->block[0] + thread->thread_index[0];                                      \
        void *from = *(void *const *)arguments[0], *to = *(void *const *)arguments[1];                                         \
        const int32_t value = *(const int32_t *)arguments[3];                                                                  \
        if (i < *(const uint32_t *)arguments[2])                                                                               \
            name##_at(from, to, i, value);                                                                                     \
    }

/* The GPU's arithmetic makes this NaN, whatever NaN went into it. */
static float computed(float result)
{
    const uint32_t nan = 0x7fffffff;
    if (result != result)
        memcpy(&result, &nan, sizeof nan);
    return result;
}

static void add_at(const float *from, float *to, uint32_t i, int32_t value)
{
    to[i] = computed(from[i] + (float)value);
}
KERNEL(add)

static void accumulate_at(const float *from, float *to, uint32_t i, int32_t value)
{
    to[i] = computed(to[i] + from[i] * (float)value);
}
KERNEL(accumulate)

static void copy_at(const uint32_t *from, uint32_t *to, uint32_t i, int32_t value)
{
    (void)value;
    to[i] = from[i];
}
KERNEL(copy)

static void set_at(const float *from, float *to, uint32_t i, int32_t value)
{
    (void)from;
    to[i] = (float)value;
}
KERNEL(set)

static void choose_at(const float *from, float *to, uint32_t i, int32_t value)
{
    to[i] = i < WRITTEN ? computed(from[i] + (float)value) : 0;
}
KERNEL(choose)

static void gather_at(const int32_t *from, float *to, uint32_t i, int32_t value)
{
    to[i] = to[from[i] + value];
}
KERNEL(gather)

static void load(void)
{
    static const size_t sizes[] = {8, 8, 4, 4};
    static const struct {
        const char *name;
        cusim_kernel_function function;
    } kernels[] = {{"_Z3addPKfPfji", add}, {"_Z10accumulatePKfPfji", accumulate}, {"_Z4copyPKfPfji", copy},
                   {"_Z3setPKfPfji", set}, {"_Z6choosePKfPfji", choose},          {"_Z6gatherPKiPfji", gather}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const cusim_kernel kernel = {
            .name = kernels[i].name, .function = kernels[i].function, .argument_bytes = sizes, .argument_count = 4};
        driver_register_kernel(&kernel);
    }
    MUST(cu.cuModuleLoadData(&module, "an image"));
}

static void run(const char *kernel, CUdeviceptr from, CUdeviceptr to, uint32_t count, int32_t value)
{
    CUfunction function;
    MUST(cu.cuModuleGetFunction(&function, module, kernel));
    MUST(cu.cuLaunchKernel(function, (count + 31) / 32, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&from, &to, &count, &value}, NULL));
}

static CUdeviceptr fresh(void)
{
    CUdeviceptr made;
    MUST(cu.cuMemAlloc(&made, COUNT * 4));
    return made;
}

/* The first WRITTEN elements are written. */
static CUdeviceptr partly_written(void)
{
    CUdeviceptr made = fresh();
    run("_Z3setPKfPfji", 0, made, WRITTEN, 5);
    return made;
}

/* ---- cases ---- */

static CUdeviceptr from, to; /* `from` is partly written */

CASE(unwritten, floats)
{
    run("_Z3addPKfPfji", from, to, COUNT, 1);
}

CASE(unwritten, clean)
{
    run("_Z3addPKfPfji", from, to, WRITTEN, 1);
    run("_Z6choosePKfPfji", from, to, COUNT, 1);
    run("_Z4copyPKfPfji", to, from, WRITTEN, 0);
}

CASE(unwritten, own)
{
    CUdeviceptr all = fresh();
    run("_Z3setPKfPfji", 0, all, COUNT, 5);
    run("_Z10accumulatePKfPfji", all, to, COUNT, 2);
}

CASE(unwritten, copied)
{
    run("_Z4copyPKfPfji", from, to, COUNT, 0);
}

CASE(unwritten, copied_and_used)
{
    CUdeviceptr last = fresh();
    copied();
    MUST(cu.cuMemcpyDtoD(last, to, COUNT * 4));
    run("_Z3addPKfPfji", last, from, COUNT, 1);
    run("_Z3addPKfPfji", from, last, COUNT, 1); /* follows from it */
}

CASE(unwritten, reused)
{
    CUdeviceptr used = fresh();
    run("_Z3setPKfPfji", from, used, COUNT, 9);
    MUST(cu.cuMemFree(used));
    run("_Z3addPKfPfji", fresh(), to, COUNT, 1);
}

CASE(unwritten, async)
{
    CUdeviceptr made;
    for (int i = 0; i < 2; i++) { /* the second time with memory that was used */
        MUST(cu.cuMemAllocAsync(&made, COUNT * 4, NULL));
        run(i ? "_Z3addPKfPfji" : "_Z3setPKfPfji", i ? made : from, i ? to : made, COUNT, 1);
        MUST(cu.cuMemFreeAsync(made, NULL));
    }
}

CASE(unwritten, by_index)
{
    run("_Z6gatherPKiPfji", fresh(), to, 3, 0);
}

STORY(unwritten)
{
    start();
    load();
    from = partly_written();
    to = fresh();
    int status = play_case(count, arguments);
    return status || cu.cuCtxSynchronize() != CUDA_SUCCESS;
}
