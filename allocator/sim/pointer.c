/* Information about an address: its range, its attributes, and IPC handles. */
#include "virtual_memory.h"

#include <stddef.h>

struct facts {
    CUdeviceptr address;
    struct space_range range;
    CUmemorytype type;
    int is_managed, is_on_host, is_exportable, is_mapped, access;
    int none; /* for attributes that no memory here has */
    unsigned long long no_handles;
};

static int gather(CUdeviceptr address, struct facts *facts)
{
    *facts = (struct facts){.address = address, .is_mapped = 1, .access = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE};
    if (space_find(address, &facts->range) == CUDA_SUCCESS) {
        facts->type = CU_MEMORYTYPE_DEVICE;
        facts->is_exportable = facts->range.context != NULL;
        return 1;
    }
    if (!host_find(address, &facts->range))
        return 0;
    facts->is_managed = facts->range.kind == HOST_MANAGED;
    facts->type = facts->is_managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
    facts->is_on_host = 1;
    return 1;
}

DRIVER(cuMemGetAddressRange, 3020, (CUdeviceptr *, pbase, size_t *, psize, CUdeviceptr, dptr))
{
    struct facts facts;
    CUcontext context;
    CALL_REFUSE(context_current(&context) == CUDA_ERROR_INVALID_CONTEXT, INVALID_CONTEXT);
    CALL_REFUSE(!gather(dptr, &facts), NOT_FOUND);
    if (pbase != NULL)
        *pbase = facts.range.start;
    if (psize != NULL)
        *psize = facts.range.size;
    return CUDA_SUCCESS;
}

#define FACT(attribute, member)                                                                                                \
    [CU_POINTER_ATTRIBUTE_##attribute] = LIST(offsetof(struct facts, member), sizeof((struct facts *)0)->member)
static const struct {
    size_t offset, size; /* in struct facts */
} attributes[] = LIST(FACT(CONTEXT, range.context), FACT(MEMORY_TYPE, type), FACT(DEVICE_POINTER, address),
                      FACT(HOST_POINTER, address), FACT(SYNC_MEMOPS, none), FACT(BUFFER_ID, range.id),
                      FACT(MEMORY_BLOCK_ID, range.id), FACT(IS_MANAGED, is_managed), FACT(DEVICE_ORDINAL, range.device),
                      FACT(IS_LEGACY_CUDA_IPC_CAPABLE, is_exportable), FACT(RANGE_START_ADDR, range.start),
                      FACT(RANGE_SIZE, range.size), FACT(MAPPED, is_mapped), FACT(ALLOWED_HANDLE_TYPES, no_handles),
                      FACT(IS_GPU_DIRECT_RDMA_CAPABLE, none), FACT(ACCESS_FLAGS, access), FACT(MEMPOOL_HANDLE, range.pool),
                      FACT(MAPPING_SIZE, range.mapping_size), FACT(MAPPING_BASE_ADDR, range.mapping_start));

/* Copies an attribute of the memory. Returns 0 if the memory has no such attribute, or the driver doesn't know it. */
static int give(CUpointer_attribute attribute, const struct facts *facts, void *out)
{
    if ((unsigned)attribute >= sizeof attributes / sizeof *attributes || attributes[attribute].size == 0 ||
        (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && !facts->is_on_host))
        return 0;
    memcpy(out, (const char *)facts + attributes[attribute].offset, attributes[attribute].size);
    return 1;
}

DRIVER(cuPointerGetAttribute, 4000, (void *, data, CUpointer_attribute, attribute, CUdeviceptr, ptr))
{
    struct facts facts;
    return data != NULL && gather(ptr, &facts) && give(attribute, &facts, data) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Of an unknown address, and what this memory lacks: 0, CU_DEVICE_INVALID for a device, and the address as the host's. The
 * range is left alone (measured). */
DRIVER(cuPointerGetAttributes, 7000,
       (unsigned int, numAttributes, CUpointer_attribute *, wanted, void **, data, CUdeviceptr, ptr))
{
    struct facts unknown = {.is_on_host = 1, .range.device = CU_DEVICE_INVALID}, facts;
    CALL_REFUSE(numAttributes == 0 || wanted == NULL || data == NULL, INVALID_VALUE);
    int is_known = gather(ptr, &facts);
    for (unsigned i = 0; i < numAttributes; i++) {
        int is_range = wanted[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || wanted[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
        CALL_REFUSE(data[i] == NULL, INVALID_VALUE);
        unknown.address = !is_known && wanted[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ? ptr : 0;
        if (is_known ? !give(wanted[i], &facts, data[i]) : !is_range)
            CALL_REFUSE(!give(wanted[i], &unknown, data[i]), INVALID_VALUE);
    }
    return CUDA_SUCCESS;
}

/* Mapped memory has no such attribute (measured). Copies of the rest are ordered with the host's work as it is. */
DRIVER(cuPointerSetAttribute, 6000, (const void *, value, CUpointer_attribute, attribute, CUdeviceptr, ptr))
{
    struct facts facts;
    CALL_REFUSE(value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !gather(ptr, &facts), INVALID_VALUE);
    CALL_REFUSE(!facts.is_on_host && !facts.range.context && !facts.range.pool, NOT_SUPPORTED);
    return CUDA_SUCCESS;
}

/* Nothing can open it: the simulated memory of other processes is out of reach. Refuses mapped memory (measured), and pool
 * memory, as cuda.h says. */
DRIVER(cuIpcGetMemHandle, 4010, (CUipcMemHandle *, pHandle, CUdeviceptr, dptr))
{
    struct facts facts;
    CALL_REFUSE(pHandle == NULL || !gather(dptr, &facts) || !facts.is_exportable, INVALID_VALUE);
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle, &facts.range.id, sizeof facts.range.id);
    return CUDA_SUCCESS;
}
