// Exports a buffer to other processes.
#include "check.h"

int main()
{
    void *buffer;
    cudaIpcMemHandle_t handle;
    CALL(cudaMalloc(&buffer, 4 << 20));
    cudaError_t error = cudaIpcGetMemHandle(&handle, buffer);
    printf("cudaIpcGetMemHandle: %s\n", cudaGetErrorName(error));
    CALL(cudaMemset(buffer, 1, 4 << 20)); // an export that failed leaves the buffer as good as before
    CALL(cudaFree(buffer));
    return error == cudaSuccess ? 0 : 1;
}
