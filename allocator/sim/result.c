/* The names of the results. */
#include "call.h"

#define NAMED(result)                                                                                                          \
    {                                                                                                                          \
        CUDA_##result, "CUDA_" #result                                                                                         \
    }

static const struct {
    CUresult result;
    const char *name;
} results[] = {NAMED(SUCCESS),
               NAMED(ERROR_INVALID_VALUE),
               NAMED(ERROR_OUT_OF_MEMORY),
               NAMED(ERROR_NOT_INITIALIZED),
               NAMED(ERROR_NO_DEVICE),
               NAMED(ERROR_INVALID_DEVICE),
               NAMED(ERROR_INVALID_IMAGE),
               NAMED(ERROR_INVALID_CONTEXT),
               NAMED(ERROR_UNSUPPORTED_LIMIT),
               NAMED(ERROR_INVALID_PTX),
               NAMED(ERROR_FILE_NOT_FOUND),
               NAMED(ERROR_OPERATING_SYSTEM),
               NAMED(ERROR_INVALID_HANDLE),
               NAMED(ERROR_ILLEGAL_STATE),
               NAMED(ERROR_NOT_FOUND),
               NAMED(ERROR_NOT_READY),
               NAMED(ERROR_ILLEGAL_ADDRESS),
               NAMED(ERROR_LAUNCH_OUT_OF_RESOURCES),
               NAMED(ERROR_CONTEXT_IS_DESTROYED),
               NAMED(ERROR_ASSERT),
               NAMED(ERROR_HOST_MEMORY_ALREADY_REGISTERED),
               NAMED(ERROR_HOST_MEMORY_NOT_REGISTERED),
               NAMED(ERROR_HARDWARE_STACK_ERROR),
               NAMED(ERROR_ILLEGAL_INSTRUCTION),
               NAMED(ERROR_MISALIGNED_ADDRESS),
               NAMED(ERROR_INVALID_ADDRESS_SPACE),
               NAMED(ERROR_INVALID_PC),
               NAMED(ERROR_LAUNCH_FAILED),
               NAMED(ERROR_NOT_PERMITTED),
               NAMED(ERROR_NOT_SUPPORTED),
               NAMED(ERROR_STREAM_CAPTURE_UNSUPPORTED),
               NAMED(ERROR_STREAM_CAPTURE_INVALIDATED),
               NAMED(ERROR_STREAM_CAPTURE_MERGE),
               NAMED(ERROR_STREAM_CAPTURE_UNMATCHED),
               NAMED(ERROR_STREAM_CAPTURE_UNJOINED),
               NAMED(ERROR_STREAM_CAPTURE_ISOLATION),
               NAMED(ERROR_STREAM_CAPTURE_IMPLICIT),
               NAMED(ERROR_CAPTURED_EVENT),
               NAMED(ERROR_STREAM_CAPTURE_WRONG_THREAD),
               NAMED(ERROR_GRAPH_EXEC_UPDATE_FAILURE),
               NAMED(ERROR_INVALID_RESOURCE_TYPE),
               NAMED(ERROR_INVALID_RESOURCE_CONFIGURATION),
               NAMED(ERROR_UNKNOWN)};

SIM_API CUresult cuGetErrorName(CUresult error, const char **pStr)
{
    CALL_ENTER_UNINITIALIZED("cuGetErrorName");
    CALL_REFUSE(pStr == NULL, INVALID_VALUE);
    *pStr = NULL;
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        if (results[i].result == error)
            *pStr = results[i].name;
    }
    return *pStr == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
