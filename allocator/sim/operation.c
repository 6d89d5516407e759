#include "operation.h"
#include "capture.h"
#include "fault.h"
#include "space.h"

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
    } else if (operation->kind == OPERATION_COPY) {
        free(operation->copy.staging);
    } else if (operation->kind == OPERATION_EVENT && operation->event.event != NULL) {
        event_release(operation->event.event);
    } else if (operation->kind == OPERATION_GRAPH && operation->graph.recording != NULL) {
        free(operation->graph.memory);
        recording_release(operation->graph.recording);
    } else if (operation_is_of_memory(operation) && operation->block != NULL) {
        graph_memory_release(operation->block);
    }
    free(operation);
}

static void copy(void *argument)
{
    const struct operation *operation = argument;
    const struct transfer *transfer = &operation->copy.transfer;
    const struct transfer_end *to = &transfer->to, *from = &transfer->from;
    const unsigned char *source = operation->copy.staging;
    if (source == NULL)
        source = (const unsigned char *)(uintptr_t)from->address;
    for (size_t slice = 0; slice < transfer->slices; slice++) {
        for (size_t row = 0; row < transfer->rows; row++)
            memmove((unsigned char *)(uintptr_t)to->address + slice * to->slice + row * to->pitch,
                    source + slice * from->slice + row * from->pitch, transfer->bytes);
    }
}

static void set_row(const struct operation *operation, unsigned char *destination)
{
    if (operation->set.width == 1) {
        memset(destination, (int)operation->set.value, operation->set.count);
        return;
    }
    if (operation->set.width == sizeof(uint32_t) && operation->set.count == 1) { /* another stream may wait for this word */
        __atomic_store_n((uint32_t *)(void *)destination, operation->set.value, __ATOMIC_RELEASE);
        return;
    }
    for (size_t i = 0; i < operation->set.count; i++)
        memcpy(destination + i * operation->set.width, &operation->set.value, operation->set.width);
}

static void set(void *argument)
{
    const struct operation *operation = argument;
    unsigned char *destination = (unsigned char *)(uintptr_t)operation->set.destination;
    for (size_t row = 0; row < operation->set.rows; row++)
        set_row(operation, destination + row * operation->set.pitch);
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
        run_transfer(copy, operation, context);
        break;
    case OPERATION_SET:
        run_transfer(set, operation, context);
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
