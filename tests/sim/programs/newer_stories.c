/* A story about a driver that is newer than all headers: see newer= in allocator/sim/sim.h. */
#include "program.h"

#define NEWER 13020

static void *ask(const char *name, int version, cuuint64_t flags)
{
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUdriverProcAddressQueryResult status;
    void *function = NULL;
    *(void **)&get = driver_function("cuGetProcAddress", "cuGetProcAddress_v2", 12000);
    MUST(get(name, &function, version, flags, &status));
    return function;
}

/* Whether the memory ends where its mapping does, as cufence makes it. */
static const char *end_of(CUdeviceptr address, size_t bytes)
{
    return (address + bytes) % (2u << 20) == 0 ? "at a page's end" : "within a page";
}

/* Both forms of one function side by side, asked for twice, as a program's libraries do. */
STORY(newer_forms)
{
    CUdeviceptr by_known, by_newer;
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*alloc_newer)(size_t, unsigned, CUdeviceptr *);
    CUresult (*free_newer)(unsigned, CUdeviceptr);
    CUresult (*wait_newer)(unsigned, CUstream);
    start();
    for (int round = 0; round < 2; round++) {
        *(void **)&alloc = ask("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
        *(void **)&alloc_newer = ask("cuMemAlloc", NEWER, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
        *(void **)&free_newer = ask("cuMemFree", NEWER, CU_GET_PROC_ADDRESS_DEFAULT);
        *(void **)&wait_newer = ask("cuStreamSynchronize", NEWER, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    }
    MUST(alloc(&by_known, 4096));
    MUST(alloc_newer(4096, 0, &by_newer));
    printf("known: %s, newer: %s\n", end_of(by_known, 4096), end_of(by_newer, 4096));
    MUST(wait_newer(0, NULL));
    MUST(free_newer(0, by_newer));
    MUST(cu.cuMemFree(by_known));
    return 0;
}
