/* The memory of graphs: space.h says how it lives. */
#include "space_locked.h"
#include "capture.h"

#include <stdlib.h>

/* Physical memory that launches bind to addresses. */
struct backing {
    struct backing *next;
    struct physical *physical;
    struct use use;
    int is_taken; /* by an allocation that is live */
};

static struct backing *backings; /* under space_lock */
static struct {
    uint64_t used, used_high, reserved, reserved_high;
} figures[SIM_MAX_DEVICES]; /* under space_lock */

/* ---- physical memory ---- */

static int is_idle(const struct backing *backing)
{
    return !backing->is_taken && backing->use.pending == 0;
}

static void free_locked(struct backing **link)
{
    struct backing *backing = *link;
    for (struct block *block = block_next_locked(NULL); block != NULL; block = block->next) {
        struct mapping *mapping = block->references == 0 ? NULL : space_mapping_locked(block->start);
        if (mapping != NULL && mapping->physical == backing->physical)
            space_unmap_locked(mapping);
        if (block->backing == backing)
            block->backing = NULL;
    }
    figures[backing->physical->file].reserved -= backing->physical->size;
    backing->physical->references = 0;
    space_drop_locked(backing->physical);
    *link = backing->next;
    free(backing);
}

int graph_memory_make_room_locked(int device, size_t size)
{
    for (struct backing **link = &backings; *link != NULL && !space_has_room_locked(device, size);) {
        if ((*link)->physical->file == device && is_idle(*link))
            free_locked(link);
        else
            link = &(*link)->next;
    }
    return space_has_room_locked(device, size);
}

/* Finds memory that is free for the stream's next work: what the block had last, or of its size; or (is_short) larger. */
static struct backing *find_locked(const struct block *block, CUstream stream, int is_short)
{
    struct backing *found = NULL;
    for (struct backing *backing = backings; backing != NULL; backing = backing->next) {
        size_t size = backing->physical->size;
        if (backing->is_taken || (backing->use.pending != 0 && backing->use.last.stream != stream) ||
            backing->physical->file != block->device || (is_short ? size < block->bytes : size != block->bytes))
            continue;
        if (found == NULL || size < found->physical->size || block->backing == backing)
            found = backing;
    }
    return found;
}

static struct backing *create_locked(const struct block *block)
{
    struct backing *backing = calloc(1, sizeof *backing);
    if (backing == NULL || !graph_memory_make_room_locked(block->device, block->bytes) ||
        block_create_physical_locked(&backing->physical, block->bytes, block->device) != CUDA_SUCCESS) {
        free(backing);
        return NULL;
    }
    backing->next = backings;
    backings = backing;
    space_count(&figures[block->device].reserved, &figures[block->device].reserved_high, block->bytes);
    return backing;
}

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

CUdeviceptr graph_memory_address(const struct block *block)
{
    return block->start;
}

static void release_locked(struct block *block)
{
    if (--block->references == 0)
        block_drop_locked(block);
}

void graph_memory_release(struct block *block)
{
    HOLD(&space_lock);
    release_locked(block);
}

/* ---- allocating and freeing ---- */

static void set_live_locked(struct block *block, struct backing *backing, int is_live)
{
    block->is_live = backing->is_taken = is_live;
    block->backing = backing;
    if (is_live) {
        block->references++;
        space_count(&figures[block->device].used, &figures[block->device].used_high, block->requested);
    } else {
        figures[block->device].used -= block->requested;
    }
}

static void use_locked(struct backing *backing, CUstream stream)
{
    backing->use.pending++;
    backing->use.last = (struct ticket){stream, stream->submitted + 1};
}

CUresult graph_memory_free_locked(struct block *block, CUstream stream, struct operation *operation)
{
    struct backing *backing = block->backing;
    set_live_locked(block, backing, 0);
    if (stream == NULL) {
        release_locked(block);
    } else {
        use_locked(backing, stream);
        operation->freed.backing = backing;
    }
    return CUDA_SUCCESS;
}

void graph_memory_pass_locked(struct block *block, struct backing *backing)
{
    backing->use.pending--;
    release_locked(block);
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
    for (size_t i = 0; i < recording->count; i++) {
        const struct operation *node = recording->operations[i];
        if (node->kind == OPERATION_RELEASE)
            CALL_REFUSE(!node->block->is_live && !has_node(recording, OPERATION_ALLOCATE, node->block), INVALID_VALUE);
        if (node->kind != OPERATION_ALLOCATE || !node->block->is_live)
            continue;
        CALL_REFUSE(!frees_first, INVALID_VALUE);
        set_live_locked(node->block, node->block->backing, 0);
        release_locked(node->block); /* the node has a reference of its own */
    }
    return CUDA_SUCCESS;
}

static CUresult play_locked(const struct operation *node, CUstream stream, struct backing **out)
{
    struct block *block = node->block;
    struct backing *backing = block->backing;
    int is_allocated = node->kind == OPERATION_ALLOCATE;
    if (is_allocated) {
        backing = find_locked(block, stream, 0);
        if (backing == NULL)
            backing = create_locked(block);
        if (backing == NULL)
            backing = find_locked(block, stream, 1);
        CALL_REFUSE(backing == NULL, OUT_OF_MEMORY);
    }
    set_live_locked(block, backing, is_allocated);
    if (!is_allocated)
        release_locked(block); /* likewise */
    use_locked(backing, stream);
    *out = backing;
    return CUDA_SUCCESS;
}

static void undo_locked(const struct operation *node, struct backing *backing)
{
    set_live_locked(node->block, backing, node->kind == OPERATION_RELEASE);
    if (node->kind == OPERATION_ALLOCATE)
        release_locked(node->block);
    backing->use.pending--;
}

CUresult graph_memory_launch(struct operation *launch, CUstream stream)
{
    const struct recording *recording = launch->graph.recording;
    size_t count = recording->memory_nodes, done = 0;
    struct backing **memory = launch->graph.memory = calloc(count, sizeof *memory);
    CALL_REFUSE(memory == NULL, OUT_OF_MEMORY);
    HOLD(&space_lock);
    CALL_TRY(check_locked(recording, launch->graph.frees_first));
    while (done < count) {
        CUresult result = play_locked(node_at(recording, done), stream, &memory[done]);
        if (result != CUDA_SUCCESS) {
            while (done-- != 0)
                undo_locked(node_at(recording, done), memory[done]);
            return result;
        }
        done++;
    }
    return CUDA_SUCCESS;
}

/* A launch that has bound the address otherwise has ended: launches of a graph don't overlap. */
void graph_memory_bind(const struct operation *launch, size_t nth, struct block *block)
{
    HOLD(&space_lock);
    struct physical *physical = launch->graph.memory[nth]->physical;
    struct mapping *mapping = space_mapping_locked(block->start);
    if (mapping != NULL && mapping->physical == physical)
        return;
    if (mapping != NULL)
        space_unmap_locked(mapping);
    block_map_locked(block, physical); /* if it fails, the graph's work faults */
}

void graph_memory_end(const struct operation *launch)
{
    HOLD(&space_lock);
    for (size_t i = 0; i < launch->graph.recording->memory_nodes; i++)
        launch->graph.memory[i]->use.pending--;
}

/* ---- figures ---- */

SIM_API CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    CALL_ENTER("cuDeviceGraphMemTrim");
    CALL_REFUSE(!config_has_device(device), INVALID_DEVICE);
    HOLD(&space_lock);
    graph_memory_make_room_locked(device, SIZE_MAX);
    return CUDA_SUCCESS;
}

static uint64_t *figure_of(CUdevice device, CUgraphMem_attribute attribute)
{
    uint64_t *const table[] = {[CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT] = &figures[device].used,
                               [CU_GRAPH_MEM_ATTR_USED_MEM_HIGH] = &figures[device].used_high,
                               [CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT] = &figures[device].reserved,
                               [CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH] = &figures[device].reserved_high};
    return (unsigned)attribute < sizeof table / sizeof *table ? table[attribute] : NULL;
}

SIM_API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    CALL_ENTER("cuDeviceGetGraphMemAttribute");
    CALL_REFUSE(!config_has_device(device), INVALID_DEVICE);
    HOLD(&space_lock);
    CALL_REFUSE(value == NULL || figure_of(device, attr) == NULL, INVALID_VALUE);
    *(cuuint64_t *)value = *figure_of(device, attr);
    return CUDA_SUCCESS;
}

/* The high-water marks can be reset. */
SIM_API CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    CALL_ENTER("cuDeviceSetGraphMemAttribute");
    CALL_REFUSE(!config_has_device(device), INVALID_DEVICE);
    HOLD(&space_lock);
    CALL_REFUSE(value == NULL || *(const cuuint64_t *)value != 0, INVALID_VALUE);
    CALL_REFUSE(attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, INVALID_VALUE);
    *figure_of(device, attr) = *figure_of(device, (CUgraphMem_attribute)(attr - 1));
    return CUDA_SUCCESS;
}
