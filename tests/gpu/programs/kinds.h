/* What programs share whose first argument chooses one of several kinds of faults. */
#pragma once

#include "check.h"

#include <cstring>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

static __device__ int own_index()
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

/* Bytes in front of and behind each piece of memory. With the second argument "roomy" there are some: what leaves the piece
 * stays in its buffer then, and the same program is correct. */
static size_t margin;

/* Zeroed memory of the device. */
template <class T>
static T *allocate(size_t count)
{
    char *made;
    CALL(cudaMalloc(&made, count * sizeof(T) + 2 * margin));
    CALL(cudaMemset(made, 0, count * sizeof(T) + 2 * margin));
    return (T *)(made + margin);
}

template <class T>
static T *copy_of(const std::vector<T> &values)
{
    T *made = allocate<T>(values.size());
    CALL(cudaMemcpy(made, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return made;
}

struct kind {
    const char *name;
    void (*run)();
};

/* Runs the kind that the first argument names. Returns the program's exit status: `faulted` if the device has had a fault. */
template <size_t N>
static int run_kind(int argc, char **argv, const kind (&kinds)[N], int faulted)
{
    int is_known = 0;
    margin = argc > 2 && !strcmp(argv[2], "roomy") ? 1 << 20 : 0;
    for (const kind &one : kinds) {
        if (argc < 2 || strcmp(argv[1], one.name))
            continue;
        one.run();
        is_known = 1;
    }
    EXPECT(is_known);
    cudaError_t error = cudaDeviceSynchronize();
    printf("error %d\n%s\n", (int)error, cudaGetErrorName(error));
    return error == cudaSuccess ? 0 : faulted;
}
