/*
 * Operations of streams on memory; and
 * CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: the program wants synchronous copies and sets of a buffer to be done when they return, also
 * those that CUDA otherwise lets return early. Libraries that hand memory to network cards set it. The driver does not take it
 * for mapped memory (580.159), so the hooks of such calls wait.
 */
#include "bounds.h"
#include "preload_internal.h"

#include "base/aside.h"
#include "base/clock.h"

#define PENDING_MS 50 /* a kernel may be waiting for the host */
#define ASKED_US 50u

/* Copies and sets that have returned early, and may be pending. */
static void await_pending(void)
{
    const uint64_t until = monotonic_ms() + PENDING_MS;
    while (!heap_may_capture() && driver->cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY && monotonic_ms() < until)
        aside_sleep(ASKED_US);
}

CUresult pointer_set(CUresult (*function)(const void *, CUpointer_attribute, CUdeviceptr), const void *value,
                     CUpointer_attribute attribute, CUdeviceptr pointer)
{
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !is_ours(pointer))
        return function(value, attribute, pointer);
    int is_on = *(const unsigned *)value != 0;
    if (failure() != CUDA_SUCCESS)
        return failure();
    if (!heap_set_synchronous(pointer, is_on))
        return CUDA_ERROR_INVALID_VALUE;
    if (is_on)
        await_pending();
    return CUDA_SUCCESS;
}

CUresult awaited_now(CUresult result, CUstream stream)
{
    if (result != CUDA_SUCCESS || capture_is_on(stream))
        return result;
    CUresult waited = hook_cuStreamSynchronize(stream);
    return driver_has_faulted(waited) ? waited : result;
}

/* 0: it writes none. */
static size_t written_by(const CUstreamBatchMemOpParams *operation)
{
    return operation->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32   ? 4
           : operation->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8
                                                                     : 0;
}

int memops_are_within(const struct host_call *call, const CUstreamBatchMemOpParams *operations, unsigned count)
{
    for (unsigned i = 0; operations && i < count; i++) {
        size_t size = written_by(&operations[i]);
        if (size && !bounds_within(call, operations[i].writeValue.address, size, 1))
            return 0;
    }
    return 1;
}

void memops_done(const struct host_call *call, const CUstreamBatchMemOpParams *operations, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const CUstreamBatchMemOpParams *done = &operations[i];
        const struct order_copy copy = {.call = call->name,
                                        .frame = call->frame,
                                        .stream = call->stream,
                                        .count = 1,
                                        .accesses = {{done->writeValue.address, written_by(done), 1}}};
        if (copy.accesses[0].size)
            order_value_written(&copy);
        else
            order_stream_waits_unseen(call->stream);
    }
}
