/* What the driver tells about an address: its range, its attributes, a handle for another process. */
#include "call.h"
#include "host.h"
#include "space.h"

#include <string.h>
#include <unistd.h>

struct facts {
    CUdeviceptr start, mapping_start;
    size_t size, mapping_size;
    CUcontext context;
    CUmemoryPool pool;
    CUmemorytype type;
    int device;
    int is_managed, is_on_host, is_exportable;
    uint64_t id;
};

static int gather(CUdeviceptr address, struct facts *facts)
{
    struct space_range range;
    struct host_range host;
    if (space_find(address, &range) == CUDA_SUCCESS) {
        *facts = (struct facts){.start = range.start,
                                .mapping_start = range.mapping_start,
                                .size = range.size,
                                .mapping_size = range.mapping_size,
                                .context = range.context,
                                .pool = (CUmemoryPool)range.pool,
                                .type = CU_MEMORYTYPE_DEVICE,
                                .device = range.device,
                                .is_exportable = range.context != NULL && range.pool == NULL && !range.is_of_graph,
                                .id = range.id};
        return 1;
    }
    if (!host_find(address, &host))
        return 0;
    *facts = (struct facts){.start = host.start,
                            .mapping_start = host.start,
                            .size = host.size,
                            .mapping_size = host.size,
                            .context = host.context,
                            .type = host.kind == HOST_MANAGED ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
                            .device = host.context->device,
                            .is_managed = host.kind == HOST_MANAGED,
                            .is_on_host = 1,
                            .id = host.id};
    return 1;
}

SIM_API CUresult cuMemGetAddressRange(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    CALL_ENTER("cuMemGetAddressRange");
    struct facts facts;
    if (!gather(dptr, &facts))
        return CUDA_ERROR_NOT_FOUND;
    if (pbase != NULL)
        *pbase = facts.start;
    if (psize != NULL)
        *psize = facts.size;
    return CUDA_SUCCESS;
}

union value {
    void *pointer;
    CUdeviceptr address;
    size_t size;
    unsigned long long id;
    int number;
};

/* Fills in an attribute of known memory. Returns its size, or 0 where the memory has none such or the driver knows none. */
static size_t get_value(CUpointer_attribute attribute, CUdeviceptr address, const struct facts *facts, union value *value)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        value->pointer = facts->context;
        return sizeof value->pointer;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        value->number = (int)facts->type;
        return sizeof value->number;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        value->address = address;
        return sizeof value->address;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        value->address = address;
        return facts->is_on_host ? sizeof value->address : 0;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        value->number = 0;
        return sizeof value->number;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        value->id = facts->id;
        return sizeof value->id;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        value->number = facts->is_managed;
        return sizeof value->number;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        value->number = facts->device;
        return sizeof value->number;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        value->number = facts->is_exportable;
        return sizeof value->number;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        value->address = facts->start;
        return sizeof value->address;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        value->size = facts->size;
        return sizeof value->size;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        value->number = 1;
        return sizeof value->number;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        value->id = CU_MEM_HANDLE_TYPE_NONE;
        return sizeof value->id;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        value->number = 0;
        return sizeof value->number;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        value->number = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return sizeof value->number;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        value->pointer = facts->pool;
        return sizeof value->pointer;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        value->size = facts->mapping_size;
        return sizeof value->size;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        value->address = facts->mapping_start;
        return sizeof value->address;
    default:
        return 0;
    }
}

SIM_API CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    CALL_ENTER("cuPointerGetAttribute");
    struct facts facts;
    union value value;
    size_t size = data != NULL && gather(ptr, &facts) ? get_value(attribute, ptr, &facts, &value) : 0;
    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(data, &value, size);
    return CUDA_SUCCESS;
}

/* What is not known, of an unknown address or of this memory, reads 0, or CU_DEVICE_INVALID where it is a device. */
SIM_API CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                        CUdeviceptr ptr)
{
    CALL_ENTER("cuPointerGetAttributes");
    const struct facts unknown = {.is_on_host = 1};
    struct facts facts;
    if (numAttributes == 0 || attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    int is_known = gather(ptr, &facts);
    for (unsigned i = 0; i < numAttributes; i++) {
        union value value;
        size_t size = is_known ? get_value(attributes[i], ptr, &facts, &value) : 0;
        if (size == 0) {
            size = get_value(attributes[i], 0, &unknown, &value);
            memset(&value, 0, sizeof value);
            if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
                value.number = CU_DEVICE_INVALID;
        }
        if (size == 0 || data[i] == NULL)
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(data[i], &value, size);
    }
    return CUDA_SUCCESS;
}

/* The bytes of a CUipcMemHandle: enough to tell who gave it out. */
struct exported {
    char mark[8];
    pid_t process;
    int device;
    CUdeviceptr address;
    uint64_t id;
};

static const char exported_mark[8] = "simulat";

/* Mapped memory is refused, measured; memory of a pool too, as cuda.h says. */
SIM_API CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    CALL_ENTER("cuIpcGetMemHandle");
    struct facts facts;
    if (pHandle == NULL || !gather(dptr, &facts) || !facts.is_exportable)
        return CUDA_ERROR_INVALID_VALUE;
    struct exported exported = {.process = getpid(), .device = facts.device, .address = facts.start, .id = facts.id};
    memcpy(exported.mark, exported_mark, sizeof exported.mark);
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle, &exported, sizeof exported);
    return CUDA_SUCCESS;
}

/* The process that gave a handle out cannot open it, and the simulated memory of another one is out of reach. */
SIM_API CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    CALL_ENTER("cuIpcOpenMemHandle");
    CUcontext context;
    struct exported exported;
    CALL_TRY(context_current(&context));
    memcpy(&exported, &handle, sizeof exported);
    if (pdptr == NULL || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (memcmp(exported.mark, exported_mark, sizeof exported.mark) != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    return exported.process == getpid() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_NOT_SUPPORTED;
}

SIM_API CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    CALL_ENTER("cuIpcCloseMemHandle");
    (void)dptr;
    return CUDA_ERROR_INVALID_VALUE; /* none was opened */
}
