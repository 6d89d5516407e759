#include "call.h"
#include "capture.h"
#include "space.h"

/* One pool a device. Its memory goes back to the device at once, so what it reserves is what is in use. */
struct CUmemPoolHandle_st {
    cuuint64_t release_threshold;
    cuuint64_t used, used_high;
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static struct CUmemPoolHandle_st pools[SIM_MAX_DEVICES];       /* under pools_lock */

static CUresult get_pool(CUmemoryPool *pool, CUdevice device)
{
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || (unsigned)device >= config_get()->devices)
        return CUDA_ERROR_INVALID_DEVICE;
    *pool = &pools[device];
    return CUDA_SUCCESS;
}

SIM_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    CALL_ENTER("cuDeviceGetDefaultMemPool");
    return get_pool(pool_out, dev);
}

SIM_API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    CALL_ENTER("cuDeviceGetMemPool");
    return get_pool(pool, dev);
}

static int is_pool(CUmemoryPool pool)
{
    for (unsigned i = 0; i < config_get()->devices; i++) {
        if (pool == &pools[i])
            return 1;
    }
    return 0;
}

static void count(int device, cuuint64_t added, cuuint64_t removed)
{
    struct CUmemPoolHandle_st *pool = &pools[device];
    pthread_mutex_lock(&pools_lock);
    pool->used = pool->used + added - removed;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    pthread_mutex_unlock(&pools_lock);
}

/* Memory that is allocated while its stream is captured belongs to the graph, and goes with it. */
static CUresult allocate_locked(CUdeviceptr *address, size_t size, CUcontext context, int device, CUstream handle)
{
    CUstream stream;
    CALL_TRY(stream_find_locked(context, handle, &stream));
    if (stream->capture != NULL && stream->capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CALL_TRY(capture_check_implicit_locked(stream));
    CALL_TRY(space_allocate(address, size, context, device));
    if (stream->capture != NULL && recording_add_allocation(stream->capture->graph->recording, *address) != 0) {
        space_free(*address);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *address, size_t size, int device, CUcontext context, CUstream stream)
{
    if (address == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    queue_lock();
    CUresult result = allocate_locked(address, size, context, device, stream);
    queue_unlock();
    if (result == CUDA_SUCCESS)
        count(device, size, 0);
    return result;
}

SIM_API CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    CALL_ENTER("cuMemAllocAsync");
    CUcontext context;
    CALL_TRY(context_current(&context));
    return allocate(dptr, bytesize, context->device, context, hStream);
}

SIM_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    CALL_ENTER("cuMemAllocFromPoolAsync");
    CUcontext context;
    CALL_TRY(context_current(&context));
    if (!is_pool(pool))
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(dptr, bytesize, (int)(pool - pools), context, hStream);
}

/* Whether the address is memory of the graph that the stream is being captured into. */
static int is_of_capture(CUcontext context, CUstream handle, CUdeviceptr address)
{
    CUstream stream;
    int is_found = 0;
    queue_lock();
    if (stream_find_locked(context, handle, &stream) == CUDA_SUCCESS && stream->capture != NULL) {
        const struct recording *recording = stream->capture->graph->recording;
        for (size_t i = 0; i < recording->allocation_count && !is_found; i++)
            is_found = recording->allocations[i] == address;
    }
    queue_unlock();
    return is_found;
}

SIM_API CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    CALL_ENTER("cuMemFreeAsync");
    CUcontext context;
    CALL_TRY(context_current(&context));
    struct space_range range;
    if (dptr == 0)
        return CUDA_SUCCESS;
    if (space_find(dptr, &range) != CUDA_SUCCESS || range.context == NULL || range.start != dptr)
        return CUDA_ERROR_INVALID_VALUE;
    int keeps = is_of_capture(context, hStream, dptr);
    struct operation *operation = operation_create(keeps ? OPERATION_NOTHING : OPERATION_FREE);
    if (operation != NULL && !keeps)
        operation->address = dptr;
    CALL_TRY(stream_submit(hStream, operation, SUBMIT_ASYNC));
    count(range.device, 0, range.size);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    CALL_ENTER("cuMemPoolTrimTo");
    (void)minBytesToKeep;
    return is_pool(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CALL_ENTER("cuMemPoolSetAttribute");
    if (!is_pool(pool) || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&pools_lock);
    if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->release_threshold = *(cuuint64_t *)value;
    else if ((attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH || attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) && *(cuuint64_t *)value == 0)
        pool->used_high = pool->used;
    else if (attr > CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&pools_lock);
    return result;
}

SIM_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CALL_ENTER("cuMemPoolGetAttribute");
    if (!is_pool(pool) || value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&pools_lock);
    if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        *(cuuint64_t *)value = pool->release_threshold;
    else if (attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        *(cuuint64_t *)value = pool->used;
    else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH || attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        *(cuuint64_t *)value = pool->used_high;
    else if (attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        *(int *)value = 1;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&pools_lock);
    return result;
}
