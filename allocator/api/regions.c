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

PUBLIC cufence_status cufence_index_table(const cufence_table *table)
{
    cufence_status status = lifecycle_check();
    return status == CUFENCE_OK ? lifecycle_index(table, lifecycle_options()) : status;
}

PUBLIC cufence_status cufence_index(const void *table, size_t count, int width, const void *rows, const int64_t *allow,
                                    size_t allowed)
{
    return cufence_index_table(&(cufence_table){.start = table,
                                                .count = count,
                                                .width = width > 0 ? (size_t)width : 0,
                                                .rows = rows,
                                                .allow = allow,
                                                .allowed = allowed});
}
