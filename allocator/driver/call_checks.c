/*
 * In debug builds: checks at each driver call that may wait that no lock is held that hooks take (base/lock.h). Which calls may
 * wait beside a stream whose queue is full was measured (H200, driver 580.159; tests/contract/queues.c): those that submit to
 * that stream or ask whether it is idle, that synchronise, and that create or destroy what a context has. Mapping memory, event
 * queries, and work on other streams do not wait; nor does work on streams of cufence's own, which are never full.
 */
#include "call_checks.h"

#ifndef NDEBUG

#include "base/lock.h"

static struct driver plain; /* what is behind the checks; constant once the driver is loaded */

#define OWN_MOST 1024
static CUstream own[OWN_MOST]; /* atomic */

void driver_owns(CUstream stream)
{
    for (unsigned i = 0; i < OWN_MOST; i++) {
        CUstream none = NULL;
        if (__atomic_compare_exchange_n(&own[i], &none, stream, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
    }
}

void driver_disowns(CUstream stream)
{
    for (unsigned i = 0; i < OWN_MOST; i++) {
        CUstream found = stream; /* once: that of the next context may have its handle by now */
        if (__atomic_compare_exchange_n(&own[i], &found, NULL, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
    }
}

static int is_own(CUstream stream)
{
    for (unsigned i = 0; stream && i < OWN_MOST; i++) {
        if (__atomic_load_n(&own[i], __ATOMIC_RELAXED) == stream)
            return 1;
    }
    return 0;
}

/* X(function, parameters, arguments), and those on a stream. */
#define WAITING(X)                                                                                                             \
    X(cuCtxSynchronize, (void), ())                                                                                            \
    X(cuEventSynchronize, (CUevent event), (event))                                                                            \
    X(cuEventCreate, (CUevent * event, unsigned flags), (event, flags))                                                        \
    X(cuEventDestroy, (CUevent event), (event))                                                                                \
    X(cuStreamCreate, (CUstream * stream, unsigned flags), (stream, flags))                                                    \
    X(cuStreamDestroy, (CUstream stream), (stream))                                                                            \
    X(cuMemAlloc, (CUdeviceptr * pointer, size_t bytes), (pointer, bytes))                                                     \
    X(cuMemFree, (CUdeviceptr pointer), (pointer))                                                                             \
    X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags), (memory, bytes, flags))                                   \
    X(cuMemHostRegister, (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags))                                 \
    X(cuModuleLoadData, (CUmodule * module, const void *image), (module, image))                                               \
    X(cuMemcpyHtoD, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes))                                       \
    X(cuMemcpyDtoH, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes))                                             \
    X(cuMemcpyDtoD, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes))
#define SUBMITTING(X)                                                                                                          \
    X(cuStreamSynchronize, (CUstream stream), (stream))                                                                        \
    X(cuStreamQuery, (CUstream stream), (stream))                                                                              \
    X(cuEventRecord, (CUevent event, CUstream stream), (event, stream))                                                        \
    X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), (stream, event, flags))                             \
    X(cuMemAllocAsync, (CUdeviceptr * pointer, size_t bytes, CUstream stream), (pointer, bytes, stream))                       \
    X(cuMemFreeAsync, (CUdeviceptr pointer, CUstream stream), (pointer, stream))                                               \
    X(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream), (to, value, bytes, stream))       \
    X(cuMemcpyDtoHAsync, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream))               \
    X(cuLaunchKernel,                                                                                                          \
      (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,            \
       CUstream stream, void **parameters, void **extra),                                                                      \
      (f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))

#define CHECKED(function, parameters, arguments)                                                                               \
    static CUresult checked_##function parameters                                                                              \
    {                                                                                                                          \
        lock_may_wait(#function);                                                                                              \
        return plain.function arguments;                                                                                       \
    }
WAITING(CHECKED)
#define CHECKED_ON(function, parameters, arguments)                                                                            \
    static CUresult checked_##function parameters                                                                              \
    {                                                                                                                          \
        if (!is_own(stream))                                                                                                   \
            lock_may_wait(#function);                                                                                          \
        return plain.function arguments;                                                                                       \
    }
SUBMITTING(CHECKED_ON)

void driver_check_calls(struct driver *table)
{
    plain = *table;
#define PUT(function, parameters, arguments)                                                                                   \
    if (table->function)                                                                                                       \
        table->function = checked_##function;
    WAITING(PUT)
    SUBMITTING(PUT)
}

#endif
