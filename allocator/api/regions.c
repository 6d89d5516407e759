/* The public functions about regions. Contracts are in include/cufence.h. */
#include "lifecycle.h"

#include "regions/regions.h"

#define PUBLIC __attribute__((visibility("default")))

PUBLIC cufence_status cufence_region(const void *start, size_t bytes, size_t rows, const char *name)
{
    cufence_status status = lifecycle_check();
    return status == CUFENCE_OK ? regions_divide((uint64_t)(uintptr_t)start, bytes, rows, name) : status;
}

PUBLIC cufence_status cufence_region_take(const void *start, const char *owner, cufence_stream stream)
{
    cufence_status status = lifecycle_check();
    return status == CUFENCE_OK ? region_take((uint64_t)(uintptr_t)start, owner, stream) : status;
}

PUBLIC cufence_status cufence_region_release(const void *start, cufence_stream stream)
{
    cufence_status status = lifecycle_check();
    return status == CUFENCE_OK ? region_release((uint64_t)(uintptr_t)start, stream) : status;
}

PUBLIC cufence_status cufence_region_gone(const void *start)
{
    cufence_status status = lifecycle_check();
    return status == CUFENCE_OK ? regions_gone((uint64_t)(uintptr_t)start) : status;
}
