#include "stream.h"
#include "capture.h"
#include "trap.h"
#include "virtual_memory.h"

#include <time.h>

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
        recording_release(operation->graph.recording);
    } else if (operation_is_of_memory(operation) && operation->block != NULL) {
        graph_memory_release(operation->block);
    }
    free(operation);
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
