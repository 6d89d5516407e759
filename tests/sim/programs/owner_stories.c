/* Stories about memory that a peer uses, and about the figures of pools. */
#include "program.h"

#define BYTES 4096

static uint32_t flag;

static CUmemoryPool default_pool(int device)
{
    CUmemoryPool pool;
    MUST(cu.cuDeviceGetDefaultMemPool(&pool, device));
    return pool;
}

/* cuMemFree waits for the memory's own device alone, on the driver too: a kernel of a peer that is not done uses freed memory.
 */
STORY(foreign_kernel)
{
    CUcontext owner;
    CUdeviceptr shared;
    start();
    MUST(cu.cuDevicePrimaryCtxRetain(&owner, 0));
    MUST(cu.cuMemAlloc(&shared, BYTES));
    use_device(1);
    MUST(cu.cuCtxEnablePeerAccess(owner, 0));
    spin(&flag, NULL);
    MUST(store(shared + 100, 1, NULL));
    MUST(cu.cuCtxSetCurrent(owner));
    say("cuMemFree", cu.cuMemFree(shared));
    let_go(&flag);
    use_device(1);
    return say("the peer's kernel", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}

static uint64_t figure(CUmemPool_attribute attribute)
{
    cuuint64_t value = 0;
    MUST(cu.cuMemPoolGetAttribute(default_pool(0), attribute, &value));
    return value;
}

static void say_pool(const char *when)
{
    printf("%s: %llu of %llu\n", when, (unsigned long long)figure(CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
           (unsigned long long)figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

/* What a pool has reserved, less what is used, is taken for what more can be had without asking the device: small buffers leave
 * the former as it is. */
STORY(pool_steps)
{
    CUdeviceptr first, second;
    cuuint64_t all = UINT64_MAX;
    start();
    MUST(cu.cuMemPoolSetAttribute(default_pool(0), CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    MUST(cu.cuMemAllocAsync(&first, 1024, NULL));
    say_pool("one");
    MUST(cu.cuMemAllocAsync(&second, 2049, NULL));
    say_pool("two");
    MUST(cu.cuMemFreeAsync(first, NULL));
    MUST(cu.cuMemFreeAsync(second, NULL));
    MUST(cu.cuStreamSynchronize(NULL));
    say_pool("none");
    for (int i = 0; i < 1000 && figure(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); i++) /* the background may hold a block */
        MUST(cu.cuMemPoolTrimTo(default_pool(0), 0));
    say_pool("trimmed");
    MUST(cu.cuMemAllocAsync(&first, 512, NULL));
    say_pool("one again");
    MUST(cu.cuMemFreeAsync(first, NULL));
    return 0;
}
