#include "unpacked_cubins.h"

#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct unpacked {
    struct unpacked *prev, *next;
    const void *owner;
    const uint8_t *packed;
    uint64_t size;
    uint8_t bytes[];
};

static struct unpacked *newest; /* the one used last is the first */
static uint64_t kept_bytes;

static void drop(struct unpacked *unpacked)
{
    DL_DELETE(newest, unpacked);
    kept_bytes -= unpacked->size;
    free(unpacked);
}

void unpacked_forget(const void *owner)
{
    struct unpacked *unpacked, *next;
    DL_FOREACH_SAFE(newest, unpacked, next)
    {
        if (unpacked->owner == owner)
            drop(unpacked);
    }
}

static struct unpacked *unpack(const void *owner, const struct fatbin_image *cubin)
{
    while (newest && kept_bytes + cubin->size > UNPACKED_MOST)
        drop(newest->prev); /* the oldest */
    struct unpacked *made = malloc(sizeof *made + cubin->size);
    if (!made || !fatbin_unpack(cubin, made->bytes)) {
        free(made);
        return NULL;
    }
    made->owner = owner;
    made->packed = cubin->packed.bytes;
    made->size = cubin->size;
    kept_bytes += made->size;
    return made;
}

struct span unpacked_find(const void *owner, const struct fatbin_image *cubin)
{
    struct unpacked *found;
    if (cubin->packing == FATBIN_PLAIN)
        return cubin->packed;
    DL_FOREACH(newest, found)
    {
        if (found->owner == owner && found->packed == cubin->packed.bytes)
            break;
    }
    if (found)
        DL_DELETE(newest, found);
    else if (!(found = unpack(owner, cubin)))
        return (struct span){NULL, 0};
    DL_PREPEND(newest, found);
    return (struct span){found->bytes, found->size};
}

uint64_t unpacked_bytes(void)
{
    return kept_bytes;
}

/* ---- PTX ---- */

static struct span copy_of(const void *bytes, size_t size)
{
    uint8_t *copy = size ? malloc(size) : NULL;
    return copy ? (struct span){memcpy(copy, bytes, size), size} : (struct span){NULL, 0};
}

struct span compiled_from(struct span ptx)
{
    CUjit_option options[] = {CU_JIT_GENERATE_LINE_INFO};
    void *values[] = {(void *)1}, *cubin = NULL;
    size_t size = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUlinkState state;
    struct span compiled = {NULL, 0};
    if (!driver->cuLinkCreate || !driver->cuLinkAddData || !driver->cuLinkComplete || !driver->cuLinkDestroy)
        return compiled;
    driver->cuThreadExchangeStreamCaptureMode(&mode); /* the program may be capturing */
    if (driver->cuLinkCreate(1, options, values, &state) == CUDA_SUCCESS) {
        if (driver->cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)ptx.bytes, ptx.size, "ptx", 0, NULL, NULL) ==
                CUDA_SUCCESS &&
            driver->cuLinkComplete(state, &cubin, &size) == CUDA_SUCCESS)
            compiled = copy_of(cubin, size);
        driver->cuLinkDestroy(state);
    }
    driver->cuThreadExchangeStreamCaptureMode(&mode);
    return compiled;
}
