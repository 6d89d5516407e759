#include "torch/pluggable.h"
#include "base/output.h"
#include "contexts/contexts.h"
#include "witness/delivery.h"
#include "witness/monitor.h"
#include "heap/heap.h"
#include "heap/unguarded/unguarded.h"
#include "launch/lens.h"

void *cufence_torch_alloc(size_t size, int device, cufence_stream stream)
{
    void *pointer = NULL;
    if (cufence_malloc(&pointer, size, device, stream) != CUFENCE_OK) {
        output_say("cufence: cannot allocate %zu bytes on GPU %d for PyTorch: %s\n", size, device, cufence_error_detail());
        return NULL;
    }
    return pointer;
}

/* PyTorch passes the device of the stream, while another device's context may be current. */
void cufence_torch_free(void *pointer, size_t size, int device, cufence_stream stream)
{
    struct heap_claim claim;
    cufence_status status = CUFENCE_OK;
    if (!pointer)
        return;
    if (!driver || heap_claim(pointer, &claim) != CUFENCE_OK) {
        if (!driver || !passed_free(pointer, device >= 0 ? context_of_device(device, &status) : NULL, stream))
            output_say("cufence: PyTorch could not free %p (%zu bytes on GPU %d): %s\n", pointer, size, device,
                       cufence_error_detail());
        return;
    }
    struct context *context = device >= 0 ? context_of_device(device, &status) : claim.context;
    struct stream *meant = context ? stream_in(context, stream) : NULL;
    heap_free(&claim, meant, meant ? HEAP_STREAM : HEAP_UNKNOWN, NULL);
}

void cufence_torch_record_stream(void *pointer, cufence_stream stream)
{
    if (!pointer)
        return;
    cufence_status status = cufence_record_stream(pointer, stream);
    if (status != CUFENCE_OK && status != CUFENCE_ERROR_NOT_FOUND)
        output_say("cufence: record_stream of %p failed: %s\n", pointer, cufence_error_detail());
}

void cufence_torch_reset(void)
{
    if (cufence_trim(-1) != CUFENCE_OK)
        output_say("cufence: empty_cache failed: %s\n", cufence_error_detail());
}

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
    if (lens)
        lens->kernel_declared((CUfunction)(uintptr_t)function, symbol, arguments);
}
