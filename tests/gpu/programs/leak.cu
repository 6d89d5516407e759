// Frees one of four buffers.
#include "check.h"

int main()
{
    void *buffers[4];
    for (int i = 0; i < 4; i++) {
        CALL(cudaMalloc(&buffers[i], 1 << 20));
        CALL(cudaMemset(buffers[i], 0, 1 << 20));
    }
    CALL(cudaFree(buffers[1]));
    CALL(cudaDeviceSynchronize());
    printf("done\n");
    return 0;
}
