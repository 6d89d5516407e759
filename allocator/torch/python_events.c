/* What Python tells. */
#include "torch/torch.h"
#include "driver/driver.h"
#include "launch/inspect_table.h"
#include "fault/delivery.h"
#include "fault/monitor.h"

/* Returns 1 also for a stream whose state can't be queried (the legacy stream while another stream is captured): waiting for
 * it would invalidate that capture. */
static int is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = driver->cuStreamIsCapturing(stream, &status);
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

int cufence_torch_before_sync(int scope, uint64_t handle)
{
    if (!driver)
        return 0;
    CUstream stream = (CUstream)(uintptr_t)handle;
    switch (scope) {
    case CUFENCE_TORCH_SYNC_DEVICE:
        (void)driver->cuCtxSynchronize();
        break;
    case CUFENCE_TORCH_SYNC_STREAM:
        if (is_capturing(stream))
            return 0;
        (void)driver->cuStreamSynchronize(stream);
        break;
    case CUFENCE_TORCH_SYNC_EVENT:
        (void)driver->cuEventSynchronize((CUevent)(uintptr_t)handle);
        break;
    default:
        return 0;
    }
    return fault_settle(scope == CUFENCE_TORCH_SYNC_DEVICE) == CUFENCE_ERROR_FAULTED;
}

void cufence_torch_add(const char *text, const char *json)
{
    delivery_add(text, json);
}

void cufence_torch_kernel(uint64_t function, const char *symbol, const char *arguments)
{
    if (inspector_now())
        inspector_now()->kernel_declared((CUfunction)(uintptr_t)function, symbol, arguments);
}
