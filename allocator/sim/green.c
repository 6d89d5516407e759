/* Green contexts, and the device resources that they are made of. context.h says what they share with their home. */
#include "gpus.h"
#include "capture.h"
#include "trap.h"
#include "handle.h"

#define SM_ALIGNMENT 2 /* half of what an H100 requires, because the simulated device is small */

/* A CUgreenCtx is a handle of its own, so that it is not valid as a context without conversion. */
struct CUgreenCtx_st {
    CUcontext context;
};

/* Never freed: there is no call for that. */
struct CUdevResourceDesc_st {
    int device;
};

static CUdevResource describe(int device, unsigned multiprocessors)
{
    CUdevResource resource = {.type = CU_DEV_RESOURCE_TYPE_SM};
    resource._internal_padding[0] = (unsigned char)device;
    resource.sm = (CUdevSmResource){multiprocessors, SM_ALIGNMENT, SM_ALIGNMENT};
    return resource;
}

static CUresult check(CUgreenCtx green)
{
    CALL_REFUSE(!handle_is_valid(HANDLE_GREEN, green), INVALID_CONTEXT);
    return context_validate(green->context);
}

DRIVER(cuDeviceGetDevResource, 12040, (CUdevice, device, CUdevResource *, resource, CUdevResourceType, type))
{
    CALL_REFUSE(!config_has_device(device), INVALID_DEVICE);
    CALL_REFUSE(resource == NULL, INVALID_VALUE);
    CALL_REFUSE(type != CU_DEV_RESOURCE_TYPE_SM, INVALID_RESOURCE_TYPE);
    *resource = describe(device, SIM_MULTIPROCESSORS);
    return CUDA_SUCCESS;
}

DRIVER(cuDevSmResourceSplitByCount, 12040,
       (CUdevResource *, result, unsigned int *, nbGroups, const CUdevResource *, input, CUdevResource *, remaining,
        unsigned int, useFlags, unsigned int, minCount))
{
    const unsigned known =
        CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING | CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE;
    CALL_REFUSE(nbGroups == NULL || input == NULL || (useFlags & ~known) != 0, INVALID_VALUE);
    CALL_REFUSE(remaining != NULL, NOT_SUPPORTED);
    CALL_REFUSE(input->type != CU_DEV_RESOURCE_TYPE_SM, INVALID_RESOURCE_TYPE);
    unsigned size = minCount < SM_ALIGNMENT ? SM_ALIGNMENT : (minCount + SM_ALIGNMENT - 1) / SM_ALIGNMENT * SM_ALIGNMENT;
    CALL_REFUSE(size > input->sm.smCount, INVALID_RESOURCE_CONFIGURATION);
    unsigned groups = input->sm.smCount / size;
    if (result != NULL && groups > *nbGroups)
        groups = *nbGroups;
    int device = input->_internal_padding[0];
    for (unsigned i = 0; result != NULL && i < groups; i++)
        result[i] = describe(device, size);
    *nbGroups = groups;
    return CUDA_SUCCESS;
}

DRIVER(cuDevResourceGenerateDesc, 12040, (CUdevResourceDesc *, phDesc, CUdevResource *, resources, unsigned int, nbResources))
{
    CALL_REFUSE(phDesc == NULL || resources == NULL || nbResources == 0, INVALID_VALUE);
    for (unsigned i = 0; i < nbResources; i++) {
        CALL_REFUSE(resources[i].type != CU_DEV_RESOURCE_TYPE_SM, INVALID_RESOURCE_TYPE);
        CALL_REFUSE(resources[i]._internal_padding[0] != resources[0]._internal_padding[0], INVALID_RESOURCE_CONFIGURATION);
    }
    CUdevResourceDesc description = handle_create(HANDLE_DESCRIPTION, sizeof *description, NULL);
    description->device = resources[0]._internal_padding[0];
    *phDesc = description;
    return CUDA_SUCCESS;
}

DRIVER(cuGreenCtxCreate, 12040, (CUgreenCtx *, phCtx, CUdevResourceDesc, desc, CUdevice, dev, unsigned int, flags))
{
    if (phCtx == NULL || flags != CU_GREEN_CTX_DEFAULT_STREAM || !handle_is_valid(HANDLE_DESCRIPTION, desc))
        return CUDA_ERROR_INVALID_VALUE;
    CALL_REFUSE(!config_has_device(dev) || desc->device != dev, INVALID_DEVICE);
    *phCtx = handle_create(HANDLE_GREEN, sizeof **phCtx, NULL);
    return context_create_green(&(*phCtx)->context, dev, *phCtx);
}

DRIVER(cuGreenCtxDestroy, 12040, (CUgreenCtx, hCtx))
{
    CALL_REFUSE(!handle_remove(HANDLE_GREEN, hCtx), INVALID_CONTEXT);
    CUresult result = context_destroy_green(hCtx->context);
    handle_free(HANDLE_GREEN, hCtx);
    return result;
}

DRIVER(cuCtxFromGreenCtx, 12040, (CUcontext *, pContext, CUgreenCtx, hCtx))
{
    CALL_REFUSE(pContext == NULL, INVALID_VALUE);
    CALL_TRY(check(hCtx));
    *pContext = hCtx->context;
    return CUDA_SUCCESS;
}

DRIVER(cuGreenCtxStreamCreate, 12050, (CUstream *, phStream, CUgreenCtx, greenCtx, unsigned int, flags, int, priority))
{
    CALL_TRY(check(greenCtx));
    CALL_REFUSE(phStream == NULL || flags != CU_STREAM_NON_BLOCKING, INVALID_VALUE);
    (void)priority;
    *phStream = stream_create(greenCtx->context, flags)->handle;
    return CUDA_SUCCESS;
}
