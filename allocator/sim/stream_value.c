/* Streams that wait for a word of memory, and write one: for the order between a device and whatever else sees that memory. */
#include "call.h"
#include "stream.h"
#include "transfer.h"

#define ADDRESS_ALIGNMENT 4

SIM_API CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    CALL_ENTER("cuStreamWaitValue32");
    CALL_REFUSE(addr == 0 || addr % ADDRESS_ALIGNMENT != 0 || flags > CU_STREAM_WAIT_VALUE_NOR, INVALID_VALUE);
    struct operation *operation = operation_create(OPERATION_WAIT);
    if (operation != NULL) {
        operation->wait.address = addr;
        operation->wait.value = value;
        operation->wait.flags = flags;
    }
    return stream_submit(stream, operation, SUBMIT_ASYNC);
}

SIM_API CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
    CALL_ENTER("cuStreamWriteValue32");
    if (addr % ADDRESS_ALIGNMENT != 0 || (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return transfer_set(addr, 0, value, sizeof value, 1, 1, stream);
}
