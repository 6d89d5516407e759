#include "program.h"

#include <unistd.h>

CUresult say(const char *what, CUresult result)
{
    const char *name = "no name";
    cu.cuGetErrorName(result, &name);
    printf("%s: %s\n", what, name);
    return result;
}

void must(const char *what, CUresult result)
{
    const char *name = "no name";
    if (result == CUDA_SUCCESS)
        return;
    cu.cuGetErrorName(result, &name);
    fprintf(stderr, "program: %s: %s\n", what, name);
    fflush(NULL);
    _Exit(2);
}

int is_guarded(void)
{
    return driver_of_cufence("cufence_init") != NULL;
}

/* ---- kernels: host functions of the simulated device ---- */

#define STORE_LINE 12 /* of kernels.cu, which is nowhere: what reports have to say */

static void store_kernel(const cusim_thread *thread, void *const *arguments)
{
    volatile uint32_t *address = (volatile uint32_t *)*(const uintptr_t *)arguments[0];
    *address = *(const uint32_t *)arguments[1];
}

static void add_one_kernel(const cusim_thread *thread, void *const *arguments)
{
    uint32_t *numbers = (uint32_t *)*(const uintptr_t *)arguments[0];
    uint32_t index = thread->block_index[0] * thread->block[0] + thread->thread_index[0];
    if (index < *(const uint32_t *)arguments[1])
        numbers[index]++;
}

static CUfunction store_function, add_one_function, spin_function;

static void register_kernels(void)
{
    static const size_t arguments[] = {sizeof(uint64_t), sizeof(uint32_t)};
    driver_register_kernel(&(cusim_kernel){"store", store_kernel, arguments, 2, "kernels.cu", STORE_LINE, 4, 0, 0});
    driver_register_kernel(&(cusim_kernel){"add_one", add_one_kernel, arguments, 2, "kernels.cu", STORE_LINE, 4, 0, 0});
}

void use_device(int device)
{
    CUcontext context;
    CUmodule module;
    MUST(cu.cuDevicePrimaryCtxRetain(&context, device));
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuModuleLoadData(&module, "an image"));
    MUST(cu.cuModuleGetFunction(&store_function, module, "store"));
    MUST(cu.cuModuleGetFunction(&add_one_function, module, "add_one"));
    MUST(cu.cuModuleGetFunction(&spin_function, module, "cusim_spin"));
}

void start(void)
{
    driver_find();
    register_kernels();
    MUST(cu.cuInit(0));
    use_device(0);
}

CUstream new_stream(void)
{
    CUstream stream;
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

uint64_t calls_of(const char *function)
{
    static uint64_t (*calls)(const char *);
    if (calls == NULL)
        *(void **)&calls = driver_of_sim("cusim_call_count");
    return calls(function);
}

cufence_stats stats_of_cufence(void)
{
    cufence_stats all = {.struct_size = sizeof all};
    cufence_status (*get)(int, cufence_stats *);
    *(void **)&get = driver_of_cufence("cufence_get_stats");
    if (get != NULL)
        get(0, &all);
    return all;
}

CUresult store(CUdeviceptr address, uint32_t value, CUstream stream)
{
    return cu.cuLaunchKernel(store_function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&address, &value}, NULL);
}

CUresult store_together(CUdeviceptr address, uint32_t value, CUstream stream)
{
    return cu.cuLaunchCooperativeKernel(store_function, 1, 2, 1, 1, 1, 4, 64, stream, (void *[]){&address, &value});
}

CUresult store_configured(CUdeviceptr address, uint32_t value, CUstream stream)
{
    CUlaunchAttribute attributes[] = {
        {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value = {.priority = 1}},
        {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.clusterDim = {2, 1, 3}}},
        {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}},
    };
    CUlaunchConfig config = {2, 1, 3, 1, 2, 1, 96, stream, attributes, 3}; /* grid, block, bytes of shared memory */
    return cu.cuLaunchKernelEx(&config, store_function, (void *[]){&address, &value}, NULL);
}

CUresult add_one(CUdeviceptr numbers, uint32_t count, CUstream stream)
{
    CUlaunchConfig config = {count ? (count + 31) / 32 : 1, 1, 1, 32, 1, 1, 0, stream, NULL, 0};
    return cu.cuLaunchKernelEx(&config, add_one_function, (void *[]){&numbers, &count}, NULL);
}

void spin(uint32_t *flag, CUstream stream)
{
    MUST(cu.cuLaunchKernel(spin_function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag}, NULL));
}

void let_go(void *flag)
{
    __atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELEASE);
}

static struct named *all_named;

void add_named(struct named *named)
{
    named->next = all_named;
    all_named = named;
}

static const struct named *find(const char *story, const char *name)
{
    for (const struct named *named = all_named; named; named = named->next)
        if (strcmp(named->story, story) == 0 && (name ? named->name && strcmp(named->name, name) == 0 : !named->name))
            return named;
    return NULL;
}

int play_case(int count, char **arguments)
{
    const struct named *found = count > 2 ? find(arguments[1], arguments[2]) : NULL;
    if (!found) {
        fprintf(stderr, "program: %s needs the name of a case\n", arguments[1]);
        return 4;
    }
    found->play();
    return 0;
}

int main(int count, char **arguments)
{
    const struct named *found = count > 1 ? find(arguments[1], NULL) : NULL;
    if (found)
        return found->run(count, arguments);
    fprintf(stderr, "usage: %s STORY [ARGUMENTS]\n", arguments[0]);
    return 4;
}
