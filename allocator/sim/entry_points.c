/* The table of the driver's functions, as DRIVER() and its like in call.h fill it, and the earlier forms of some. */
#include "stream.h"

/* The linker puts them around the section. */
extern const struct symbol *const __start_sim_symbols[] __attribute__((visibility("hidden")));
extern const struct symbol *const __stop_sim_symbols[] __attribute__((visibility("hidden")));

/* Invented forms of a driver that is newer than its users know (newer=). Their parameters are in a different order than
 * today's, so that calling them as a known form fails. */
#define NEWER(call) flags != 0 ? CUDA_ERROR_INVALID_VALUE : call
FORM_IS("cuMemAlloc", cuMemAlloc_v9, CUDA_VERSION + 1, (size_t, bytes, unsigned, flags, CUdeviceptr *, out),
        NEWER(cuMemAlloc(out, bytes)))
FORM_IS("cuMemFree", cuMemFree_v9, CUDA_VERSION + 1, (unsigned, flags, CUdeviceptr, address), NEWER(cuMemFree(address)))
FORM_TWIN_IS("cuStreamSynchronize", cuStreamSynchronize_v9, ptsz, CUDA_VERSION + 1, (unsigned, flags, CUstream, stream),
             NEWER(cuStreamSynchronize(stream)))

int newer_version(void)
{
    const char *setting = secure_getenv("CUFENCE_SIM"), *found = setting == NULL ? NULL : strstr(setting, "newer=");
    return found == NULL ? 0 : atoi(found + strlen("newer="));
}

/* Of several forms, the newest one that the version knows. */
static const struct symbol *find_symbol(const char *name, int version, CUdriverProcAddressQueryResult *status)
{
    const struct symbol *found = NULL;
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (const struct symbol *const *row = __start_sim_symbols; row < __stop_sim_symbols; row++) {
        const struct symbol *symbol = *row;
        if (strcmp(symbol->name, name) != 0 && strcmp(symbol->abi_name, name) != 0)
            continue;
        if (symbol->since <= version && (found == NULL || found->since < symbol->since))
            found = symbol;
        *status = found == NULL ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return found;
}

static CUresult look_up(const char *name, void **function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    CALL_REFUSE(name == NULL || function == NULL || (version > CUDA_VERSION && version > newer_version()), INVALID_VALUE);
    int is_own = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
    const struct symbol *symbol = find_symbol(name, version, status);
    *function = NULL;
    CALL_REFUSE(symbol == NULL, NOT_FOUND);
    int is_twin = is_own && symbol->twin != NULL;
    memcpy(function, is_twin ? &symbol->twin : &symbol->function, sizeof *function);
    return CUDA_SUCCESS;
}

/* If `symbolStatus` is given, a missing symbol succeeds with a NULL pointer, as cuda.h says; otherwise it is an error. */
DRIVER_EARLY(cuGetProcAddress, 12000,
             (const char *, symbol, void **, pfn, int, cudaVersion, cuuint64_t, flags, CUdriverProcAddressQueryResult *,
              symbolStatus))
{
    CUdriverProcAddressQueryResult status;
    CUresult result = look_up(symbol, pfn, cudaVersion, flags, &status);
    if (symbolStatus == NULL || result == CUDA_ERROR_INVALID_VALUE)
        return result;
    *symbolStatus = status;
    return CUDA_SUCCESS;
}

/* cuda.h's cuGraphInstantiate is cuGraphInstantiateWithFlags. */
SYMBOL(instantiate, "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", 11040, cuGraphInstantiate, NULL)

/* ---- the first forms of functions, whose names are macros in cuda.h ---- */

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags);

DRIVER_EARLY(cuGetProcAddress, 11030, (const char *, symbol, void **, pfn, int, cudaVersion, cuuint64_t, flags))
{
    CUdriverProcAddressQueryResult status;
    return look_up(symbol, pfn, cudaVersion, flags, &status);
}

#undef cuDeviceGetUuid
FORM_IS("cuDeviceGetUuid", cuDeviceGetUuid, 9020, (CUuuid *, uuid, CUdevice, device), cuDeviceGetUuid_v2(uuid, device))

#undef cuEventElapsedTime
FORM_IS("cuEventElapsedTime", cuEventElapsedTime, 2000, (float *, milliseconds, CUevent, start, CUevent, end),
        cuEventElapsedTime_v2(milliseconds, start, end))

#undef cuGraphAddNode
FORM_IS("cuGraphAddNode", cuGraphAddNode, 12020,
        (CUgraphNode *, node, CUgraph, graph, const CUgraphNode *, dependencies, size_t, count, CUgraphNodeParams *, params),
        cuGraphAddNode_v2(node, graph, dependencies, NULL, count, params))

#undef cuStreamBeginCapture
FORM_TWIN_IS("cuStreamBeginCapture", cuStreamBeginCapture, ptsz, 10000, (CUstream, stream),
             cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL))

#undef cuStreamUpdateCaptureDependencies
FORM_TWIN_IS("cuStreamUpdateCaptureDependencies", cuStreamUpdateCaptureDependencies, ptsz, 11030,
             (CUstream, stream, CUgraphNode *, dependencies, size_t, count, unsigned int, flags),
             cuStreamUpdateCaptureDependencies_v2(stream, dependencies, NULL, count, flags))

#undef cuStreamGetCaptureInfo
FORM_TWIN_IS("cuStreamGetCaptureInfo", cuStreamGetCaptureInfo, ptsz, 10010,
             (CUstream, stream, CUstreamCaptureStatus *, status, cuuint64_t *, id),
             cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL))

FORM_TWIN_IS("cuStreamGetCaptureInfo", cuStreamGetCaptureInfo_v2, ptsz, 11030,
             (CUstream, s, CUstreamCaptureStatus *, c, cuuint64_t *, i, CUgraph *, g, const CUgraphNode **, d, size_t *, n),
             cuStreamGetCaptureInfo_v3(s, c, i, g, d, NULL, n))
