#include "trap.h"
#include "kernel.h"
#include "stream.h"

#include <sys/syscall.h>
#include <unistd.h>

#define MAX_BLOCK_THREADS 1024

/* Finds the parameter buffer in the `extra` options. Returns NULL if there is none or it is too small. */
static const unsigned char *extra_buffer(void **extra, size_t wanted)
{
    const unsigned char *buffer = NULL;
    size_t bytes = 0;
    for (; extra != NULL && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(const size_t *)extra[1];
    }
    return bytes < wanted ? NULL : buffer;
}

static CUresult copy_parameters(struct launch *launch, void **parameters, void **extra)
{
    const struct CUfunc_st *function = launch->function;
    size_t count = function->kernel.argument_count;
    const unsigned char *buffer = parameters == NULL ? extra_buffer(extra, function->parameter_bytes) : NULL;
    CALL_REFUSE(count != 0 && parameters == NULL && buffer == NULL, INVALID_VALUE);
    launch->parameter_bytes = function->parameter_bytes;
    launch->parameters = memory_new(function->parameter_bytes);
    launch->arguments = memory_new(count * sizeof *launch->arguments);
    for (size_t i = 0; i < count; i++) {
        size_t offset = function->argument_offsets[i];
        launch->arguments[i] = launch->parameters + offset;
        memcpy(launch->arguments[i], parameters != NULL ? parameters[i] : buffer + offset, function->kernel.argument_bytes[i]);
    }
    return CUDA_SUCCESS;
}

CUresult launch_create(struct operation **out, CUfunction function, const uint32_t grid[3], const uint32_t block[3],
                       uint32_t shared_bytes, void **parameters, void **extra)
{
    CALL_REFUSE(!kernel_is_valid(function), INVALID_HANDLE);
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || block[0] == 0 || block[1] == 0 || block[2] == 0 ||
        (uint64_t)block[0] * block[1] * block[2] > MAX_BLOCK_THREADS ||
        shared_bytes > (uint32_t)atomic_load(&function->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES]))
        return CUDA_ERROR_INVALID_VALUE;
    OPERATION(operation, operation_create(OPERATION_KERNEL));
    struct launch *launch = &operation->launch;
    launch->function = function;
    memcpy(launch->grid, grid, sizeof launch->grid);
    memcpy(launch->block, block, sizeof launch->block);
    launch->host_tid = (uint32_t)syscall(SYS_gettid);
    CALL_TRY(copy_parameters(launch, parameters, extra));
    *out = operation_retain(operation);
    return CUDA_SUCCESS;
}

static CUresult launch_kernel(CUfunction function, const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
                              CUstream stream, void **parameters, void **extra)
{
    struct operation *operation;
    CALL_TRY(launch_create(&operation, function, grid, block, shared_bytes, parameters, extra));
    return stream_submit(stream, operation, SUBMIT_ASYNC);
}

DRIVER_TWIN_IS(cuLaunchKernel, ptsz, 4000,
               (CUfunction, f, unsigned, gx, unsigned, gy, unsigned, gz, unsigned, bx, unsigned, by, unsigned, bz, unsigned,
                shared, CUstream, stream, void **, params, void **, extra),
               launch_kernel(f, (uint32_t[]){gx, gy, gz}, (uint32_t[]){bx, by, bz}, shared, stream, params, extra))

DRIVER_TWIN_IS(cuLaunchCooperativeKernel, ptsz, 9000,
               (CUfunction, f, unsigned, gx, unsigned, gy, unsigned, gz, unsigned, bx, unsigned, by, unsigned, bz, unsigned,
                shared, CUstream, stream, void **, params),
               launch_kernel(f, (uint32_t[]){gx, gy, gz}, (uint32_t[]){bx, by, bz}, shared, stream, params, NULL))

DRIVER_TWIN(cuLaunchKernelEx, ptsz, 11060, (const CUlaunchConfig *, c, CUfunction, f, void **, params, void **, extra))
{
    CALL_REFUSE(c == NULL || (c->numAttrs != 0 && c->attrs == NULL), INVALID_VALUE);
    return launch_kernel(f, (uint32_t[]){c->gridDimX, c->gridDimY, c->gridDimZ},
                         (uint32_t[]){c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes, c->hStream, params, extra);
}

DRIVER_TWIN(cuLaunchHostFunc, ptsz, 10000, (CUstream, hStream, CUhostFn, fn, void *, userData))
{
    CALL_REFUSE(fn == NULL, INVALID_VALUE);
    struct operation *operation = operation_create(OPERATION_HOST);
    operation->host.function = fn;
    operation->host.user = userData;
    return stream_submit(hStream, operation, SUBMIT_ASYNC);
}

DRIVER_TWIN(cuStreamAddCallback, ptsz, 5000,
            (CUstream, hStream, CUstreamCallback, callback, void *, userData, unsigned int, flags))
{
    CALL_REFUSE(callback == NULL || flags != 0, INVALID_VALUE);
    struct operation *operation = operation_create(OPERATION_CALLBACK);
    operation->host.callback = callback;
    operation->host.stream = hStream;
    operation->host.user = userData;
    return stream_submit(hStream, operation, SUBMIT_ASYNC);
}

struct lane {
    const struct launch *launch;
    cusim_thread thread;
};

static void run_lane(void *argument)
{
    const struct lane *lane = argument;
    lane->launch->function->kernel.function(&lane->thread, lane->launch->arguments);
}

/* The coordinates of the nth thread or block, x fastest. */
static void place(const uint32_t extents[3], uint64_t nth, uint32_t out[3])
{
    for (unsigned i = 0; i < 3; nth /= extents[i++])
        out[i] = (uint32_t)(nth % extents[i]);
}

/* Runs the lanes of a warp one after the other. A lane that faults ends; the others continue. */
static void run_warp(struct fault_site *site, uint32_t first, uint32_t end)
{
    const struct launch *launch = site->launch;
    struct lane lane = {.launch = launch};
    memcpy(lane.thread.grid, launch->grid, sizeof launch->grid);
    memcpy(lane.thread.block, launch->block, sizeof launch->block);
    memcpy(lane.thread.block_index, site->block, sizeof site->block);
    site->valid = site->faulted = 0;
    for (uint32_t number = 0; first + number < end; number++) {
        place(launch->block, first + number, site->threads[number]);
        memcpy(lane.thread.thread_index, site->threads[number], sizeof site->threads[number]);
        site->valid |= 1u << number;
        if (!fault_catch(run_lane, &lane, &site->faults[number]))
            continue;
        if (!site->faulted)
            site->exception = site->faults[number].exception;
        site->faulted |= 1u << number;
    }
}

/* Returns whether the grid continues. *is_reported: the grid's fault was reported; the driver writes one dump per kernel. */
static int run_block(struct fault_site *site, int *is_reported)
{
    uint32_t threads = site->launch->block[0] * site->launch->block[1] * site->launch->block[2];
    for (site->warp = 0; site->warp * WARP_LANES < threads; site->warp++) {
        uint32_t first = site->warp * WARP_LANES;
        run_warp(site, first, first + WARP_LANES < threads ? first + WARP_LANES : threads);
        if (site->faulted == 0 || *is_reported)
            continue;
        *is_reported = 1;
        if (!fault_report(site))
            return 0;
    }
    return context_error(site->context) == CUDA_SUCCESS;
}

void kernel_run(const struct launch *launch, CUcontext context)
{
    static atomic_ullong next_grid_id = 1;
    struct fault_site site = {.context = context, .launch = launch, .grid_id = atomic_fetch_add(&next_grid_id, 1)};
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    int is_reported = 0, goes_on = 1;
    for (uint64_t block = 0; goes_on && block < blocks; block++) {
        place(launch->grid, block, site.block);
        goes_on = run_block(&site, &is_reported);
    }
}
