#include "one_kernel.h"

#include "kernels.ptx.h"

#include <cufence.h>

#include "driver/driver.h"
#include "launch/launch.h"

#include <dlfcn.h>
#include <sim.h>

static void empty(const cusim_thread *thread, void *const *arguments)
{
    (void)thread, (void)arguments;
}

static void register_kernel(void)
{
    static const size_t sizes[] = {8, 8, 4, 4};
    static const cusim_kernel kernel = {.name = "empty", .function = empty, .argument_bytes = sizes, .argument_count = 4};
    void (*add)(const cusim_kernel *) = (void (*)(const cusim_kernel *))dlsym(driver->library, "cusim_register_kernel");
    if (add)
        add(&kernel);
}

const char *one_kernel_start(struct one_kernel *out, uint64_t places)
{
    CUdevice device = 0;
    CUmodule module = NULL;
    if (cufence_init(NULL) != CUFENCE_OK)
        return cufence_error_detail();
    register_kernel();
    if (driver_check(driver->cuDeviceGet(&device, 0), "cuDeviceGet") != CUFENCE_OK ||
        driver_check(driver->cuDevicePrimaryCtxRetain(&out->context, device), "cuDevicePrimaryCtxRetain") != CUFENCE_OK ||
        driver_check(driver->cuCtxSetCurrent(out->context), "cuCtxSetCurrent") != CUFENCE_OK ||
        driver_check(driver->cuStreamCreate(&out->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate") != CUFENCE_OK ||
        driver_check(driver->cuModuleLoadData(&module, kernels_ptx), "cuModuleLoadData") != CUFENCE_OK ||
        driver_check(driver->cuModuleGetFunction(&out->function, module, "empty"), "cuModuleGetFunction") != CUFENCE_OK ||
        driver_check(driver->cuDeviceGetName(out->device, sizeof out->device, device), "cuDeviceGetName") != CUFENCE_OK)
        return cufence_error_detail();
    launch_open(places);
    out->entry = context_of(out->context);
    return NULL;
}

struct arguments {
    uint64_t x, y;
    float a;
    int n;
};

static struct arguments arguments_of(uint64_t i)
{
    return (struct arguments){.x = i, .y = ~i, .a = 2, .n = 1000};
}

void one_kernel_record(const struct one_kernel *kernel, uint64_t i)
{
    struct arguments arguments = arguments_of(i);
    void *parameters[] = {&arguments.x, &arguments.y, &arguments.a, &arguments.n};
    const struct launch_call call = {.function = kernel->function,
                                     .grid = {1, 1, 1},
                                     .block = {1, 1, 1},
                                     .stream = kernel->stream,
                                     .parameters = parameters};
    launch_record(kernel->entry, &call);
}
