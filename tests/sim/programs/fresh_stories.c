/* Programs that read memory which nobody has written, and their twins that do not, for `cufence hunt --uninit`: `unwritten
 * CASE`. */
#include "program.h"

#include <time.h>
#include <unistd.h>

enum { COUNT = 256, WRITTEN = 200 };

struct padded {
    uint8_t letter; /* three bytes follow that nobody writes */
    int32_t number;
};

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

static void add_at(const int32_t *from, int32_t *to, uint32_t i, int32_t value)
{
    to[i] = from[i] + value;
}
KERNEL(add)

static void accumulate_at(const float *from, float *to, uint32_t i, int32_t value)
{
    to[i] += from[i] * (float)value;
}
KERNEL(accumulate)

static void choose_at(const uint8_t *from, int32_t *to, uint32_t i, int32_t value)
{
    to[i] = from[i] ? value : -value;
}
KERNEL(choose)

static void copy_at(const int32_t *from, int32_t *to, uint32_t i, int32_t value)
{
    (void)value;
    to[i] = from[i];
}
KERNEL(copy)

static void set_at(const int32_t *from, int32_t *to, uint32_t i, int32_t value)
{
    (void)from;
    to[i] = value;
}
KERNEL(set)

static void pack_at(const int32_t *from, struct padded *to, uint32_t i, int32_t value)
{
    (void)from;
    to[i].letter = (uint8_t)value;
    to[i].number = (int32_t)i;
}
KERNEL(pack)

static void unpack_at(const struct padded *from, int32_t *to, uint32_t i, int32_t value)
{
    to[i] = from[i].letter + from[i].number + value;
}
KERNEL(unpack)

static void gather_at(const int32_t *from, int32_t *to, uint32_t i, int32_t value)
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
    } kernels[] = {{"_Z3addPKiPiji", add},
                   {"_Z10accumulatePKfPfji", accumulate},
                   {"_Z6choosePKbPiji", choose},
                   {"_Z4copyPKiPiji", copy},
                   {"_Z3setPKiPiji", set},
                   {"_Z4packPKiP6paddedji", pack},
                   {"_Z6unpackPK6paddedPiji", unpack},
                   {"_Z6gatherPKiPiji", gather}};
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
    run("_Z3setPKiPiji", 0, made, WRITTEN, 5);
    return made;
}

/* ---- cases ---- */

static CUdeviceptr from, to; /* `from` is partly written */

CASE(unwritten, integers)
{
    run("_Z3addPKiPiji", from, to, COUNT, 1);
}

CASE(unwritten, clean)
{
    run("_Z3addPKiPiji", from, to, WRITTEN, 1);
    run("_Z4copyPKiPiji", to, from, WRITTEN, 0);
}

CASE(unwritten, floats)
{
    run("_Z10accumulatePKfPfji", from, to, WRITTEN, 2);
}

CASE(unwritten, flags)
{
    run("_Z6choosePKbPiji", fresh(), to, 3, 7);
}

CASE(unwritten, copied)
{
    run("_Z4copyPKiPiji", from, to, COUNT, 0);
}

CASE(unwritten, copied_and_used)
{
    CUdeviceptr last = fresh();
    copied();
    MUST(cu.cuMemcpyDtoD(last, to, COUNT * 4));
    run("_Z3addPKiPiji", last, from, COUNT, 1);
    run("_Z3addPKiPiji", from, last, COUNT, 1); /* follows from it */
}

CASE(unwritten, padding)
{
    CUdeviceptr packed;
    MUST(cu.cuMemAlloc(&packed, COUNT * sizeof(struct padded)));
    run("_Z4packPKiP6paddedji", from, packed, COUNT, 'x');
    run("_Z6unpackPK6paddedPiji", packed, to, COUNT, 1);
}

CASE(unwritten, differs)
{
    run("_Z3addPKiPiji", from, to, WRITTEN, (int32_t)getpid());
}

CASE(unwritten, differs_and_integers)
{
    differs();
    to = fresh();
    integers();
}

CASE(unwritten, host)
{
    int32_t numbers[COUNT];
    MUST(cu.cuMemcpyDtoH(numbers, from, sizeof numbers));
    run("_Z3setPKiPiji", from, to, WRITTEN, numbers[COUNT - 1] + 1);
}

CASE(unwritten, unused_on_host)
{
    int32_t numbers[COUNT];
    MUST(cu.cuMemcpyDtoH(numbers, from, sizeof numbers));
    run("_Z3setPKiPiji", from, to, WRITTEN, numbers[0] + 1);
}

CASE(unwritten, reused)
{
    CUdeviceptr used = fresh();
    run("_Z3setPKiPiji", from, used, COUNT, 9);
    MUST(cu.cuMemFree(used));
    run("_Z3addPKiPiji", fresh(), to, COUNT, 1);
}

CASE(unwritten, async)
{
    CUdeviceptr made;
    for (int i = 0; i < 2; i++) { /* the second time with memory that was used */
        MUST(cu.cuMemAllocAsync(&made, COUNT * 4, NULL));
        run(i ? "_Z3addPKiPiji" : "_Z3setPKiPiji", i ? made : from, i ? to : made, COUNT, 1);
        MUST(cu.cuMemFreeAsync(made, NULL));
    }
}

CASE(unwritten, by_index)
{
    run("_Z6gatherPKiPiji", fresh(), to, 3, 0);
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
