/*
 * Libraries with special requirements on an allocation. They are recognised by the file name of the caller, so that nothing
 * changes for other buffers of the process:
 *
 *   XLA    refuses a buffer whose address is not a multiple of 256 ("Address of buffer 0 must be a multiple of 100";
 *          kXlaAllocatedBufferAlignBytes)
 *   NCCL   exports what it allocates to other processes (cudaIpcGetMemHandle), unless it uses cuMemCreate; so does NVSHMEM
 */
#include "preload_internal.h"

#include <dlfcn.h>
#include <string.h>

static const struct {
    const char *part; /* of the file name */
    struct needs needs;
} libraries[] = {
    {"xla", {.alignment = 256}},        /* JAX's xla_cuda_plugin.so, xla_extension.so */
    {"pjrt", {.alignment = 256}},       /* pjrt_c_api_gpu_plugin.so: XLA without JAX */
    {"tensorflow", {.alignment = 256}}, /* libtensorflow_cc.so, with XLA in it */
    {"libnccl", {.exports = 1}},        {"libnvshmem", {.exports = 1}},
};

static struct needs look_up(const void *address)
{
    Dl_info found;
    const char *name = dladdr(address, &found) && found.dli_fname ? found.dli_fname : "";
    const char *slash = strrchr(name, '/');
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (strstr(slash ? slash + 1 : name, libraries[i].part))
            return libraries[i].needs;
    }
    return (struct needs){0};
}

/* Programs allocate from a few callers, so the answers are cached. User addresses have 48 bits, so an address and its answer
 * fit in one word. */
struct needs caller_needs(const void *address)
{
    static uint64_t known[64]; /* atomic; address << 16 | alignment << 1 | exports */
    uint64_t key = (uint64_t)(uintptr_t)address;
    uint64_t *entry = &known[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 58];
    uint64_t word = __atomic_load_n(entry, __ATOMIC_RELAXED);
    if (word >> 16 == key)
        return (struct needs){.alignment = (uint32_t)(word & 0xffff) >> 1, .exports = word & 1};
    struct needs needs = look_up(address);
    __atomic_store_n(entry, key << 16 | needs.alignment << 1 | needs.exports, __ATOMIC_RELAXED);
    return needs;
}
