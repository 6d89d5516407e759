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
    return cufence_region_take_many(&start, 1, owner, stream);
}

PUBLIC cufence_status cufence_region_take_many(const void *const *starts, size_t count, const char *owner,
                                               cufence_stream stream)
{
    cufence_status status = lifecycle_check();
    return status == CUFENCE_OK ? regions_take(starts, count, owner, stream) : status;
}

PUBLIC cufence_status cufence_region_release(const void *start, cufence_stream stream)
{
    return cufence_region_release_many(&start, 1, stream);
}

PUBLIC cufence_status cufence_region_release_many(const void *const *starts, size_t count, cufence_stream stream)
{
    cufence_status status = lifecycle_check();
    return status == CUFENCE_OK ? regions_release(starts, count, stream) : status;
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
