/* What these programs share. They are ordinary CUDA programs: nothing in them needs cufence. */
#pragma once

#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

/* Ends the program with status 2, which no case expects, if a call fails. */
#define CALL(call)                                                                                                             \
    do {                                                                                                                       \
        cudaError_t error_ = (call);                                                                                           \
        if (error_ != cudaSuccess) {                                                                                           \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(error_));                                    \
            exit(2);                                                                                                           \
        }                                                                                                                      \
    } while (0)

#define EXPECT(condition)                                                                                                      \
    do {                                                                                                                       \
        if (!(condition)) {                                                                                                    \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                                     \
            exit(2);                                                                                                           \
        }                                                                                                                      \
    } while (0)
