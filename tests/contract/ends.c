/* Contexts that end, in each way, also where the call fails. */
#include "contract.h"

#undef cuCtxDetach
CUresult cuCtxDetach(CUcontext context); /* deprecated, and called by PyCUDA */

#define END                                                                                                                    \
    "cuda.h, cuCtxDestroy: destroys memory of cuMemAlloc with the context, and not that of cuMemAllocAsync, which no context " \
    "owns"

static CUcontext begin(CUdeviceptr *plain, CUdeviceptr *pool, CUstream *stream)
{
    CUcontext own = context_new();
    *stream = stream_new();
    MUST(cuMemAlloc(plain, share(20)));
    MUST(cuMemsetD8Async(*plain, 3, 1000, *stream));
    MUST(cuMemAllocAsync(pool, 1000, *stream));
    MUST(cuMemsetD8Async(*pool, 5, 1000, *stream));
    MUST(cuStreamSynchronize(*stream));
    return own;
}

PROMISE(end_destroy, 1, END)
{
    CUdeviceptr plain, pool;
    CUstream stream;
    CUcontext first = primary(0), own = begin(&plain, &pool, &stream);
    printf("free: %u\n", free_per_cent());
    ASK(cuCtxDestroy(own));
    MUST(cuCtxSetCurrent(first));
    printf("free: %u\n", free_per_cent());
    printf("pool memory: %s\n", ends_of(pool, 1000));
    ASK(cuMemFree(pool));
    ASK(cuMemFree(plain));
    ASK(cuMemAlloc(&plain, share(80)));
}

PROMISE(end_destroy_async, 1, END)
{
    CUdeviceptr plain, pool;
    CUstream stream, other = stream_new();
    CUcontext first = primary(0), own = begin(&plain, &pool, &stream);
    ASK(cuCtxDestroy(own));
    MUST(cuCtxSetCurrent(first));
    ASK(cuMemsetD8Async(pool, 8, 1000, other));
    ASK(cuStreamSynchronize(other));
    printf("pool memory: %s\n", ends_of(pool, 1000));
    ASK(cuMemFreeAsync(pool, other));
    ASK(cuStreamSynchronize(other));
}

PROMISE(end_freed_elsewhere, 1, END "; cuMemFreeAsync: the memory may be accessed until the stream gets there")
{
    CUdeviceptr plain, small;
    CUstream stream, other = stream_new();
    CUcontext first = primary(0), own = begin(&plain, &small, &stream);
    CUdeviceptr pool = ready_memory(share(60), stream);
    MUST(cuCtxSetCurrent(first));
    held(other);
    MUST(cuMemsetD8Async(pool, 8, 1000, other));
    ASK(cuMemFreeAsync(pool, other));
    ASK(cuMemFreeAsync(small, other));
    ASK(cuCtxDestroy(own));
    let_go();
    ASK(cuStreamSynchronize(other));
    ASK(cuMemAlloc(&plain, share(80)));
}

PROMISE(end_detach, 1, END)
{
    CUdeviceptr plain, pool;
    CUstream stream;
    CUcontext first = primary(0), own = begin(&plain, &pool, &stream), now = NULL;
    ASK(cuCtxDetach(own));
    MUST(cuCtxGetCurrent(&now));
    printf("it is current: %d, the first is: %d\n", now == own, now == first);
    MUST(cuCtxSetCurrent(first));
    printf("free: %u\n", free_per_cent());
    ASK(cuMemFree(plain));
}

PROMISE(end_detach_many, 1, END)
{
    CUdeviceptr plain, pool;
    CUstream stream;
    CUcontext first = primary(0);
    for (int i = 0; i < 8; i++) {
        MUST(cuCtxDetach(begin(&plain, &pool, &stream)));
        MUST(cuCtxSetCurrent(first));
        MUST(cuMemFree(pool));
    }
    printf("free: %u\n", free_per_cent());
}

PROMISE(end_attached, 1, "cuda.h, cuCtxAttach, cuCtxDetach: count usage; deprecated")
{
    CUdeviceptr plain, pool;
    CUstream stream;
    CUcontext first = primary(0), own = begin(&plain, &pool, &stream), same = NULL;
    ASK(cuCtxAttach(&same, 0));
    ASK(cuCtxDetach(own));
    ASK(cuCtxSetCurrent(own));
    printf("%s\n", ends_of(plain, 1000));
    ASK(cuCtxDetach(own));
    MUST(cuCtxSetCurrent(first));
    printf("free: %u\n", free_per_cent());
}

PROMISE(end_reset, 1, "cuda.h, cuDevicePrimaryCtxReset: destroys all resources of the primary context, and does not release it")
{
    CUstream stream = stream_new();
    CUdeviceptr plain = plain_memory(share(20));
    ready_memory(1000, stream);
    ASK(cuDevicePrimaryCtxReset(0));
    primary(0);
    printf("free: %u\n", free_per_cent());
    ASK(cuMemFree(plain));
    ASK(cuMemAlloc(&plain, share(70)));
    ASK(cuMemFree(plain));
}

static void say_active(void)
{
    unsigned flags;
    int is_active = 0;
    MUST(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    printf("active: %d\n", is_active);
}

PROMISE(end_reset_and_release, 1, "cuda.h, cuDevicePrimaryCtxReset: resetting the primary context does not release it")
{
    primary(0); /* a second time */
    ASK(cuDevicePrimaryCtxReset(0));
    say_active();
    ASK(cuDevicePrimaryCtxRelease(0));
    ASK(cuDevicePrimaryCtxRelease(0));
    primary(0);
    filled_memory(1000, 4);
    ASK(cuDevicePrimaryCtxRelease(0));
    say_active();
}

PROMISE(end_release, 1, "cuda.h, cuDevicePrimaryCtxRelease: resets the context when nobody retains it any more")
{
    CUdeviceptr plain = plain_memory(share(20));
    ASK(cuDevicePrimaryCtxRelease(0));
    say_active();
    ASK(cuDevicePrimaryCtxRelease(0));
    primary(0);
    printf("free: %u\n", free_per_cent());
    ASK(cuMemFree(plain));
}

PROMISE(end_retained_twice, 1, "cuda.h, cuDevicePrimaryCtxRelease: resets the context when nobody retains it any more")
{
    primary(0); /* a second time */
    CUdeviceptr plain = filled_memory(1000, 4);
    ASK(cuDevicePrimaryCtxRelease(0));
    printf("%s\n", ends_of(plain, 1000));
    ASK(cuMemFree(plain));
}

PROMISE(end_fails, 1, "cuda.h, cuCtxDestroy: what fails has done nothing")
{
    CUstream stream = stream_new();
    CUcontext context = primary(0);
    CUdeviceptr plain = plain_memory(1000), pool = pool_memory(1000, stream);
    MUST(cuMemsetD8(plain, 4, 1000));
    ASK(cuCtxDestroy(context));
    ASK(cuCtxDetach(context));
    ASK(cuCtxDestroy(NULL));
    MUST(cuCtxSetCurrent(context));
    printf("%s\n", ends_of(plain, 1000));
    ASK(cuMemFreeAsync(pool, stream));
    ASK(cuMemFree(plain));
    ASK(cuStreamSynchronize(stream));
}

PROMISE(end_other_device, 2, END)
{
    primary(1);
    CUdeviceptr plain = filled_memory(1000, 4);
    ASK(cuDevicePrimaryCtxReset(0));
    printf("%s\n", ends_of(plain, 1000));
    ASK(cuMemFree(plain));
}

PROMISE(green_memory, 1, "cuda.h, green contexts: memory belongs to the primary context")
{
    CUstream stream;
    CUgreenCtx green = green_new(&stream);
    CUdeviceptr pool = pool_memory(1000, stream);
    MUST(cuMemsetD8Async(pool, 5, 1000, stream));
    CUdeviceptr plain = plain_memory(1000);
    MUST(cuStreamSynchronize(stream));
    MUST(cuStreamDestroy(stream));
    ASK(cuGreenCtxDestroy(green));
    printf("%s\n", ends_of(pool, 1000));
    ASK(cuMemFree(pool));
    BESIDE_WORK(cuMemFree(plain));
}
