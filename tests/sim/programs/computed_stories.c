/* Launches whose buffers are saved, for tests/python/test_saved.py. */
#include "program.h"

enum { COUNT = 1000 };

struct wide {
    uint64_t first;
    float factor;
};

/* ---- kernels ---- */

static void scale(const cusim_thread *thread, void *const *arguments)
{
    const float *from = *(const float *const *)arguments[0];
    float *to = *(float *const *)arguments[1];
    uint32_t i = thread->block_index[0] * thread->block[0] + thread->thread_index[0];
    if (i < *(const uint32_t *)arguments[2])
        to[i] = from[i] * *(const float *)arguments[3];
}

static void sum(const cusim_thread *thread, void *const *arguments)
{
    const float *from = *(const float *const *)arguments[0];
    float *to = *(float *const *)arguments[1], total = 0;
    int count = *(const int *)arguments[2];
    for (int i = 0; i < count; i++)
        total += from[i];
    *to += total;
}

static void race(const cusim_thread *thread, void *const *arguments)
{
    float *to = *(float *const *)arguments[0];
    to[7] = 1.0f;
}

static void with_struct(const cusim_thread *thread, void *const *arguments)
{
    const struct wide *wide = arguments[0];
    float *to = *(float *const *)arguments[1];
    to[0] = wide->factor;
}

static void look(const cusim_thread *thread, void *const *arguments)
{
    (void)thread;
    (void)arguments;
}

/* ---- the program ---- */

static CUfunction function_of(CUmodule module, const char *name)
{
    CUfunction function;
    MUST(cu.cuModuleGetFunction(&function, module, name));
    return function;
}

static void add(const char *name, cusim_kernel_function function, const size_t *sizes, size_t count)
{
    const cusim_kernel kernel = {.name = name, .function = function, .argument_bytes = sizes, .argument_count = count};
    driver_register_kernel(&kernel);
}

static void register_all(void)
{
    static const size_t of_scale[] = {8, 8, 4, 4}, of_sum[] = {8, 8, 4}, of_race[] = {8},
                        of_struct[] = {sizeof(struct wide), 8};
    add("_Z5scalePKfPfjf", scale, of_scale, 4);
    add("sum", sum, of_sum, 3);
    add("race", race, of_race, 1);
    add("with_struct", with_struct, of_struct, 2);
    add("_Z4lookPK13__nv_bfloat16", look, of_race, 1);
}

static void fill(CUdeviceptr to)
{
    static float numbers[COUNT];
    for (int i = 0; i < COUNT; i++)
        numbers[i] = 0.1f * (float)i * (i % 3 ? 1.0f : 1e4f);
    MUST(cu.cuMemcpyHtoD(to, numbers, sizeof numbers));
}

static void launch(CUfunction function, unsigned blocks, CUstream stream, void **arguments)
{
    MUST(cu.cuLaunchKernel(function, blocks, 1, 1, 128, 1, 1, 0, stream, arguments, NULL));
}

STORY(computed)
{
    CUmodule module;
    CUdeviceptr a, b, c;
    uint32_t size = COUNT;
    float factor = 2.0f, total = 0;
    struct wide wide = {.factor = 4.0f};
    driver_find();
    register_all();
    start();
    MUST(cu.cuModuleLoadData(&module, "an image"));
    CUstream other = new_stream();
    MUST(cu.cuMemAlloc(&a, COUNT * sizeof(float)));
    MUST(cu.cuMemAlloc(&b, COUNT * sizeof(float)));
    MUST(cu.cuMemAlloc(&c, 64));
    fill(a);
    MUST(cu.cuMemsetD8(c, 0, 64));
    launch(function_of(module, "_Z5scalePKfPfjf"), 8, NULL, (void *[]){&a, &b, &size, &factor});
    launch(function_of(module, "race"), 1, NULL, (void *[]){&b});
    launch(function_of(module, "with_struct"), 1, NULL, (void *[]){&wide, &b});
    launch(function_of(module, "sum"), 1, NULL, (void *[]){&b, &c, &size});
    MUST(cu.cuCtxSynchronize());
    for (int i = 0; i < 2; i++)
        launch(function_of(module, "race"), 1, other, (void *[]){&a});
    MUST(cu.cuCtxSynchronize());
    launch(function_of(module, "_Z4lookPK13__nv_bfloat16"), 1, NULL, (void *[]){&a});
    MUST(cu.cuMemcpyDtoH(&total, c, sizeof total));
    printf("total %g\n", (double)total);
    return 0;
}
