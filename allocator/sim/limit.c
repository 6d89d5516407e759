/* The limits of a context. They are kept and handed back, and limit nothing. */
#include "call.h"
#include "context.h"

/* The values of a new context on an H100, and the largest that the driver takes. */
static const struct {
    int is_supported;
    size_t initial, most;
} table[CU_LIMIT_MAX] = {[CU_LIMIT_STACK_SIZE] = {1, 1024, (size_t)512 << 10},
                         [CU_LIMIT_PRINTF_FIFO_SIZE] = {1, (size_t)1 << 20, SIZE_MAX},
                         [CU_LIMIT_MALLOC_HEAP_SIZE] = {1, (size_t)8 << 20, SIZE_MAX},
                         [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = {1, 2048, SIZE_MAX},
                         [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = {1, 64, 128},
                         [CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = {1, 0, SIZE_MAX}};

void limit_reset(CUcontext context)
{
    for (size_t i = 0; i < CU_LIMIT_MAX; i++)
        atomic_store(&context->limits[i], table[i].initial);
}

/* Errors: INVALID_VALUE, UNSUPPORTED_LIMIT, those of context_current(). */
static CUresult check(CUcontext *context, CUlimit limit)
{
    CALL_TRY(context_current(context));
    if ((int)limit < 0 || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    return table[limit].is_supported ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

SIM_API CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    CALL_ENTER("cuCtxSetLimit");
    CUcontext context;
    CALL_TRY(check(&context, limit));
    if (value > table[limit].most)
        return CUDA_ERROR_INVALID_VALUE;
    atomic_store(&context->limits[limit], value);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    CALL_ENTER("cuCtxGetLimit");
    CUcontext context;
    CALL_TRY(check(&context, limit));
    if (pvalue == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *pvalue = atomic_load(&context->limits[limit]);
    return CUDA_SUCCESS;
}
