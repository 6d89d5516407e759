#include "unpacked.h"

#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

struct unpacked {
    struct unpacked *next;
    const void *owner;
    const uint8_t *packed;
    uint64_t size;
    uint8_t bytes[];
};

static struct unpacked *newest; /* the one used last is the first */
static uint64_t kept_bytes;

static void drop(struct unpacked **at)
{
    struct unpacked *unpacked = *at;
    *at = unpacked->next;
    kept_bytes -= unpacked->size;
    free(unpacked);
}

void unpacked_forget(const void *owner)
{
    struct unpacked **at = &newest;
    while (*at) {
        if ((*at)->owner == owner)
            drop(at);
        else
            at = &(*at)->next;
    }
}

static void drop_oldest(void)
{
    struct unpacked **last = &newest;
    while ((*last)->next)
        last = &(*last)->next;
    drop(last);
}

static struct unpacked *unpack(const void *owner, const struct fatbin_image *cubin)
{
    while (newest && kept_bytes + cubin->size > UNPACKED_MOST)
        drop_oldest();
    struct unpacked *made = malloc(sizeof *made + cubin->size);
    if (made && !fatbin_unpack(cubin, made->bytes)) {
        free(made);
        made = NULL;
    }
    if (!made)
        return NULL;
    made->owner = owner;
    made->packed = cubin->packed.bytes;
    made->size = cubin->size;
    kept_bytes += made->size;
    return made;
}

static struct unpacked *take_out(const void *owner, const struct fatbin_image *cubin)
{
    for (struct unpacked **at = &newest; *at; at = &(*at)->next) {
        struct unpacked *found = *at;
        if (found->owner != owner || found->packed != cubin->packed.bytes)
            continue;
        *at = found->next;
        return found;
    }
    return NULL;
}

struct span unpacked_find(const void *owner, const struct fatbin_image *cubin)
{
    if (cubin->packing == FATBIN_PLAIN)
        return cubin->packed;
    struct unpacked *found = take_out(owner, cubin);
    if (!found && !(found = unpack(owner, cubin)))
        return (struct span){NULL, 0};
    found->next = newest;
    newest = found;
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
