/* Launches, and what a stream runs. */
#include "capture.h"
#include "kernel.h"
#include "trap.h"
#include "virtual_memory.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_BLOCK_THREADS 1024

struct operation *operation_create(enum operation_kind kind)
{
    struct operation *operation = memory_new(sizeof *operation);
    atomic_init(&operation->references, 1);
    operation->kind = kind;
    return operation;
}

struct operation *operation_retain(struct operation *operation)
{
    atomic_fetch_add(&operation->references, 1);
    return operation;
}

void operation_release(struct operation *operation)
{
    if (atomic_fetch_sub(&operation->references, 1) != 1)
        return;
    if (operation->kind == OPERATION_KERNEL) {
        free(operation->launch.arguments);
        free(operation->launch.parameters);
    } else if (operation->kind == OPERATION_COPY || operation->kind == OPERATION_SET) {
        free(operation->copy.staging);
    } else if (operation->kind == OPERATION_GRAPH && operation->graph.recording != NULL) {
        free(operation->graph.memory);
        if (operation->graph.handle != NULL)
            graph_free(operation->graph.handle);
        recording_release(operation->graph.recording);
    } else if (operation_is_of_memory(operation) && operation->block != NULL) {
        graph_memory_release(operation->block);
    }
    free(operation);
}

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

static CUresult submit_host(CUstream stream, CUhostFn function, CUstreamCallback callback, void *user)
{
    CALL_REFUSE(function == NULL && callback == NULL, INVALID_VALUE);
    struct operation *operation = operation_create(function != NULL ? OPERATION_HOST : OPERATION_CALLBACK);
    operation->host.function = function;
    operation->host.callback = callback;
    operation->host.stream = stream;
    operation->host.user = user;
    return stream_submit(stream, operation, SUBMIT_ASYNC);
}

DRIVER_TWIN_IS(cuLaunchHostFunc, ptsz, 10000, (CUstream, stream, CUhostFn, fn, void *, user),
               submit_host(stream, fn, NULL, user))

DRIVER_TWIN_IS(cuStreamAddCallback, ptsz, 5000, (CUstream, stream, CUstreamCallback, fn, void *, user, unsigned int, flags),
               flags != 0 ? CUDA_ERROR_INVALID_VALUE : submit_host(stream, NULL, fn, user))

/* ---- what a stream runs ---- */

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

/* Returns whether the grid continues. */
static int run_block(struct fault_site *site)
{
    uint32_t threads = site->launch->block[0] * site->launch->block[1] * site->launch->block[2];
    for (site->warp = 0; site->warp * WARP_LANES < threads; site->warp++) {
        uint32_t first = site->warp * WARP_LANES;
        run_warp(site, first, first + WARP_LANES < threads ? first + WARP_LANES : threads);
        if (site->faulted == 0 || site->is_reported)
            continue;
        site->is_reported = 1;
        if (!fault_report(site))
            return 0;
    }
    return context_error(site->context) == CUDA_SUCCESS;
}

static void kernel_run(const struct launch *launch, CUcontext context)
{
    static atomic_ullong next_grid_id = 1;
    struct fault_site site = {.context = context, .launch = launch, .grid_id = atomic_fetch_add(&next_grid_id, 1)};
    uint64_t count = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    uint64_t block = 0;
    do
        place(launch->grid, block, site.block);
    while (run_block(&site) && ++block < count);
}

static void put_row(const struct transfer *transfer, unsigned char *to, const unsigned char *from)
{
    if (transfer->width == 0)
        memmove(to, from, transfer->bytes);
    else if (transfer->width == 1)
        memset(to, (int)transfer->value, transfer->bytes);
    else if (transfer->bytes == sizeof(uint32_t) && transfer->width == sizeof(uint32_t)) /* another stream may wait for it */
        __atomic_store_n((uint32_t *)(void *)to, transfer->value, __ATOMIC_RELEASE);
    else
        for (size_t at = 0; at < transfer->bytes; at += transfer->width)
            memcpy(to + at, &transfer->value, transfer->width);
}

static void put_rows(void *argument)
{
    const struct operation *operation = argument;
    const struct transfer *transfer = &operation->copy.transfer;
    const struct transfer_end *to = &transfer->to, *from = &transfer->from;
    unsigned char *out = (unsigned char *)(uintptr_t)to->address;
    const unsigned char *in = operation->copy.staging;
    if (in == NULL)
        in = (const unsigned char *)(uintptr_t)from->address;
    for (size_t slice = 0; slice < transfer->slices; slice++) {
        for (size_t row = 0; row < transfer->rows; row++)
            put_row(transfer, out + slice * to->slice + row * to->pitch, in + slice * from->slice + row * from->pitch);
    }
}

static void await_value(void *argument)
{
    const struct operation *operation = argument;
    const uint32_t *word = (const uint32_t *)(uintptr_t)operation->wait.address;
    while ((int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - operation->wait.value) < 0)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Memory that existed when a copy was submitted may be freed when it runs. Faults of the copy engine write no core dump. */
static void run_transfer(void (*function)(void *), struct operation *operation, CUcontext context)
{
    struct fault fault;
    if (fault_catch(function, operation, &fault))
        atomic_store(&context->error, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void run_graph(const struct operation *launch, CUcontext context)
{
    const struct recording *recording = launch->graph.recording;
    size_t memory_nodes = 0;
    for (size_t i = 0; i < recording->count; i++) {
        struct operation *node = recording->operations[i];
        if (node->kind == OPERATION_ALLOCATE)
            graph_memory_bind(launch, memory_nodes, node->block);
        memory_nodes += (size_t)operation_is_of_memory(node);
        if (i >= 64 || !(recording->disabled >> i & 1))
            operation_run(node, context);
    }
}

static void run_good(struct operation *operation, CUcontext context)
{
    switch (operation->kind) {
    case OPERATION_KERNEL:
        kernel_run(&operation->launch, context);
        break;
    case OPERATION_COPY:
    case OPERATION_SET:
        run_transfer(put_rows, operation, context);
        break;
    case OPERATION_WAIT:
        run_transfer(await_value, operation, context);
        break;
    case OPERATION_HOST:
        operation->host.function(operation->host.user);
        break;
    case OPERATION_GRAPH:
        run_graph(operation, context);
        break;
    default:
        break;
    }
}

void operation_run(struct operation *operation, CUcontext context)
{
    if (context_error(context) == CUDA_SUCCESS)
        run_good(operation, context);
    /* The following happens even in a failed context. */
    if (operation->kind == OPERATION_EVENT)
        event_complete(operation->event.event, operation->event.generation);
    else if (operation->kind == OPERATION_FREE)
        space_pass(operation);
    else if (operation->kind == OPERATION_GRAPH && operation->graph.memory != NULL)
        graph_memory_end(operation);
    else if (operation->kind == OPERATION_CALLBACK)
        operation->host.callback(operation->host.stream, context_error(context), operation->host.user);
}
