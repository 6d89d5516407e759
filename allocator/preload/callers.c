/*
 * Libraries that take more of an allocation than its size: XLA refuses a buffer whose address is no multiple of 256
 * ("Address of buffer 0 must be a multiple of 100"; kXlaAllocatedBufferAlignBytes). They are known by the name of the file
 * that the call comes from, so that the buffers of other libraries in the same process keep their ends flush.
 */
#include "internal.h"

#include <dlfcn.h>
#include <string.h>

static const struct {
    const char *part; /* of the file's name */
    uint32_t alignment;
} libraries[] = {
    {"xla", 256},        /* JAX's xla_cuda_plugin.so, xla_extension.so */
    {"pjrt", 256},       /* pjrt_c_api_gpu_plugin.so: XLA without JAX */
    {"tensorflow", 256}, /* libtensorflow_cc.so, with XLA in it */
};

static uint32_t look_up(const void *address)
{
    Dl_info found;
    if (!dladdr(address, &found) || !found.dli_fname)
        return 0;
    const char *slash = strrchr(found.dli_fname, '/');
    const char *name = slash ? slash + 1 : found.dli_fname;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (strstr(name, libraries[i].part))
            return libraries[i].alignment;
    }
    return 0;
}

/* A program allocates from few places. An address has 48 bits on this processor, so that it and the answer fit one word. */
uint32_t caller_alignment(const void *address)
{
    static uint64_t known[64]; /* atomic; address << 16 | alignment */
    uint64_t place = (uint64_t)(uintptr_t)address;
    uint64_t *entry = &known[(place * UINT64_C(0x9e3779b97f4a7c15)) >> 58];
    uint64_t word = __atomic_load_n(entry, __ATOMIC_RELAXED);
    if (word >> 16 == place)
        return word & 0xffff;
    uint32_t alignment = look_up(address);
    __atomic_store_n(entry, place << 16 | alignment, __ATOMIC_RELAXED);
    return alignment;
}
