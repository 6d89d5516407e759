// A buffer is freed twice.
#include "check.h"

int main()
{
    void *first, *second;
    CALL(cudaMalloc(&first, 4000));
    CALL(cudaMalloc(&second, 8000));
    CALL(cudaFree(first));
    cudaError_t error = cudaFree(first);
    printf("second free: %s\n", cudaGetErrorName(error));
    CALL(cudaFree(second)); // the other one is as good as before
    return error == cudaSuccess ? 0 : 1;
}
