/* What most stories of the heap begin with: cufence with some options, the primary context of device 0, buffers and streams. */
#pragma once

#include "child.h"

#include <sim.h>

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)

static CUcontext context; /* the primary one of device 0, which start() makes current */

static inline void start(const char *options)
{
    CHECK_OK(cufence_init(options));
    context = use_device(0);
}

static inline void *allocate(size_t size, CUstream stream)
{
    void *pointer = NULL;
    CHECK_OK(cufence_malloc(&pointer, size, -1, stream));
    CHECK(pointer != NULL);
    return pointer;
}

static inline CUstream new_stream(void)
{
    CUstream stream;
    CHECK_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline CUstream start_with_stream(const char *options)
{
    start(options);
    return new_stream();
}

static inline cufence_stats stats(void)
{
    cufence_stats all = {.struct_size = sizeof all};
    CHECK_OK(cufence_get_stats(0, &all));
    return all;
}

/* Whether the buffer is freed and unmapped. */
static inline int is_retired(const void *pointer)
{
    cufence_description where = {.struct_size = sizeof where};
    CHECK_OK(cufence_describe(pointer, &where));
    return where.place == CUFENCE_PLACE_FREED && !where.buffer.is_mapped;
}

static inline int is_guarded(const void *pointer)
{
    cufence_description where = {.struct_size = sizeof where};
    CHECK_OK(cufence_describe(pointer, &where));
    return where.place == CUFENCE_PLACE_INSIDE;
}

/* Keeps a stream busy until *flag is set. */
static inline void spin(CUstream stream, uint32_t *flag)
{
    static CUmodule module;
    if (!module)
        CHECK_CU(cuModuleLoadData(&module, "any"));
    spin_on(module, stream, flag);
}
