/* The memory of graphs: see virtual_memory.h. A block with references is an address; what it is bound to is its backing. */
#include "virtual_memory.h"
#include "capture.h"

/* ---- nodes ---- */

CUresult graph_memory_allocate_node(struct operation **node, CUdeviceptr *address, size_t size, int device)
{
    CALL_REFUSE(address == NULL || size == 0, INVALID_VALUE);
    CALL_REFUSE(size > config_get()->memory, OUT_OF_MEMORY);
    OPERATION(operation, operation_create(OPERATION_ALLOCATE));
    HOLD(&space_lock);
    CALL_TRY(block_reserve_locked(&operation->block, size, device));
    operation->block->references = 1;
    *address = operation->block->start;
    *node = operation_retain(operation);
    return CUDA_SUCCESS;
}

static int has_node(const struct recording *recording, enum operation_kind kind, const struct block *block)
{
    for (size_t i = 0; i < recording->count; i++) {
        if (recording->operations[i]->kind == kind && recording->operations[i]->block == block)
            return 1;
    }
    return 0;
}

CUresult graph_memory_free_node(struct operation **node, const struct recording *recording, CUdeviceptr address)
{
    OPERATION(operation, operation_create(OPERATION_RELEASE));
    HOLD(&space_lock);
    struct block *block = space_block_locked(address);
    CALL_REFUSE(block == NULL || block->references == 0 || block->start != address, INVALID_VALUE);
    int is_inside = has_node(recording, OPERATION_ALLOCATE, block);
    CALL_REFUSE(has_node(recording, OPERATION_RELEASE, block), INVALID_VALUE);
    CALL_REFUSE(is_inside ? block->is_freed_outside : block->is_freed_inside, INVALID_VALUE);
    *(is_inside ? &block->is_freed_inside : &block->is_freed_outside) = 1;
    block->references++;
    operation->block = block;
    *node = operation_retain(operation);
    return CUDA_SUCCESS;
}

void graph_memory_release_locked(struct block *address)
{
    if (--address->references == 0)
        block_drop_locked(address);
}

void graph_memory_release(struct block *address)
{
    HOLD(&space_lock);
    graph_memory_release_locked(address);
}

/* ---- allocating and freeing, as calls see it ---- */

static void set_live_locked(struct block *address, int is_live)
{
    address->is_live = is_live;
    if (is_live)
        address->references++;
    else
        graph_memory_release_locked(address);
}

void graph_memory_free_locked(struct block *address, CUstream stream, struct operation *operation)
{
    block_set_live_locked(address->backing, 0);
    if (stream != NULL) {
        block_use_locked(address->backing, stream);
        operation->freed.block = address->backing;
        operation->freed.address = address;
        address->references++;
    }
    set_live_locked(address, 0);
}

/* Returns the nth memory node of a recording, which has so many. */
static struct operation *node_at(const struct recording *recording, size_t nth)
{
    size_t i = 0;
    while (!operation_is_of_memory(recording->operations[i]) || nth-- != 0)
        i++;
    return recording->operations[i];
}

static CUresult check_locked(const struct recording *recording, int frees_first)
{
    for (size_t i = 0; i < recording->memory_nodes; i++) {
        const struct operation *node = node_at(recording, i);
        if (node->kind == OPERATION_RELEASE) {
            CALL_REFUSE(!node->block->is_live && !has_node(recording, OPERATION_ALLOCATE, node->block), INVALID_VALUE);
        } else if (node->block->is_live) {
            CALL_REFUSE(!frees_first, INVALID_VALUE);
            graph_memory_free_locked(node->block, NULL, NULL);
        }
    }
    return CUDA_SUCCESS;
}

static CUresult play_locked(const struct operation *node, CUstream stream, struct block **memory)
{
    struct block *address = node->block;
    struct ticket none;
    int is_allocated = node->kind == OPERATION_ALLOCATE;
    if (is_allocated)
        CALL_TRY(block_take_locked(&address->backing, address->requested, pool_of_graphs(address->device), stream, &none));
    else
        block_set_live_locked(address->backing, 0);
    set_live_locked(address, is_allocated);
    block_use_locked(address->backing, stream);
    *memory = address->backing;
    return CUDA_SUCCESS;
}

static void undo_locked(const struct operation *node, struct block *memory)
{
    int was_live = node->kind == OPERATION_RELEASE;
    memory->pending--;
    block_set_live_locked(memory, was_live);
    set_live_locked(node->block, was_live);
}

/* A launch that runs out keeps what it has found until then for good: no trim returns it (H200, 580.159). */
static void lose_rest_locked(int device)
{
    struct block *lost;
    struct ticket none;
    size_t rest = space_free_bytes_locked(device) / SIM_GRANULARITY * SIM_GRANULARITY;
    if (rest == 0 || block_take_locked(&lost, rest, pool_of_graphs(device), NULL, &none) != CUDA_SUCCESS)
        return;
    lost->pending++;
    block_set_live_locked(lost, 0);
}

CUresult graph_memory_launch(struct operation *launch, CUstream stream)
{
    const struct recording *recording = launch->graph.recording;
    struct block **memory = launch->graph.memory = memory_new(recording->memory_nodes * sizeof(struct block *));
    HOLD(&space_lock);
    CUresult result = check_locked(recording, launch->graph.frees_first);
    size_t done = 0;
    while (result == CUDA_SUCCESS && done < recording->memory_nodes) {
        result = play_locked(node_at(recording, done), stream, &memory[done]);
        done += result == CUDA_SUCCESS;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        lose_rest_locked(node_at(recording, done)->block->device);
    while (result != CUDA_SUCCESS && done-- != 0)
        undo_locked(node_at(recording, done), memory[done]);
    return result;
}

/* ---- the launch runs ---- */

void graph_memory_unbind_locked(const struct block *backing)
{
    const struct physical *physical = space_mapping_locked(backing->start)->physical;
    for (struct block *block = blocks; block != NULL; block = block->next) {
        struct mapping *mapping = block->references == 0 ? NULL : space_mapping_locked(block->start);
        if (mapping != NULL && mapping->physical == physical)
            space_unmap_locked(mapping);
        if (block->backing == backing)
            block->backing = NULL;
    }
}

/* A launch that has bound the address otherwise has ended: launches of a graph don't overlap. */
void graph_memory_bind(const struct operation *launch, size_t nth, struct block *address)
{
    HOLD(&space_lock);
    struct physical *physical = space_mapping_locked(launch->graph.memory[nth]->start)->physical;
    struct mapping *mapping = space_mapping_locked(address->start);
    if (mapping != NULL && mapping->physical == physical)
        return;
    if (mapping != NULL)
        space_unmap_locked(mapping);
    block_map_locked(address, physical); /* if it fails, the graph's work faults */
}

void graph_memory_end(const struct operation *launch)
{
    HOLD(&space_lock);
    for (size_t i = 0; i < launch->graph.recording->memory_nodes; i++)
        launch->graph.memory[i]->pending--;
}
