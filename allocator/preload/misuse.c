#include "internal.h"

#include "fault/monitor.h"

#include <time.h>

CUresult misuse(const char *kind, const char *call, CUdeviceptr pointer, const cufence_description *place)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    monitor_misuse(&(struct misuse){.kind = kind,
                                    .buffer_frames = stack_python_frames,
                                    .call = call,
                                    .sentence = cufence_error_detail(),
                                    .address = pointer,
                                    .place = place,
                                    .now_ns = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec});
    return CUDA_ERROR_INVALID_VALUE;
}
