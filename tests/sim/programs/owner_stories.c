/* Stories about whose memory a buffer is, and whose work has to be over before it is used again. */
#include "program.h"

#include "support/thread_id.h"

#include <pthread.h>
#include <unistd.h>

#define BYTES 4096

static uint32_t flag;

static void give_access(CUmemoryPool pool, int peer)
{
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, peer}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    MUST(cu.cuMemPoolSetAccess(pool, &access, 1));
}

static CUmemoryPool default_pool(int device)
{
    CUmemoryPool pool;
    MUST(cu.cuDeviceGetDefaultMemPool(&pool, device));
    return pool;
}

/* Memory of device 0, which a kernel of device 1 is going to fill with 1, freed behind that kernel by device 1. */
static CUdeviceptr freed_on_device_1(CUstream *stream)
{
    CUdeviceptr shared;
    give_access(default_pool(0), 1);
    MUST(cu.cuMemAllocAsync(&shared, BYTES, NULL));
    MUST(cu.cuStreamSynchronize(NULL));
    use_device(1);
    if (stream != NULL)
        MUST(cu.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING));
    spin(&flag, stream != NULL ? *stream : NULL);
    MUST(cu.cuMemsetD8Async(shared, 1, BYTES, stream != NULL ? *stream : NULL));
    MUST(cu.cuMemFreeAsync(shared, stream != NULL ? *stream : NULL));
    return shared;
}

/* foreign_stream [again]: NULL means the default stream of device 1 then. What device 0 allocates next keeps its values; with
 * `again` also whether the memory serves once more when device 1 is done. */
STORY(foreign_stream)
{
    CUdeviceptr next, last;
    start();
    CUdeviceptr shared = freed_on_device_1(NULL);
    use_device(0);
    MUST(cu.cuMemAllocAsync(&next, BYTES, NULL));
    MUST(cu.cuMemsetD8Async(next, 2, BYTES, NULL));
    MUST(cu.cuStreamSynchronize(NULL));
    let_go(&flag);
    use_device(1);
    MUST(cu.cuCtxSynchronize());
    use_device(0);
    printf("the next buffer holds %u\n", first_byte(next));
    if (count > 2 && strcmp(arguments[2], "again") == 0) {
        MUST(cu.cuMemAllocAsync(&last, BYTES, NULL));
        printf("used again: %s\n", last == shared ? "yes" : "no");
    }
    return 0;
}

/* A trim of device 0's pool, while a stream of device 1 is still to use what was freed on it; and one after that. */
STORY(foreign_explicit)
{
    CUstream stream;
    cuuint64_t reserved = 77;
    start();
    freed_on_device_1(&stream);
    use_device(0);
    MUST(cu.cuMemPoolTrimTo(default_pool(0), 0));
    let_go(&flag);
    use_device(1);
    say("the stream of device 1", cu.cuStreamSynchronize(stream));
    use_device(0);
    MUST(cu.cuMemPoolTrimTo(default_pool(0), 0));
    MUST(cu.cuMemPoolGetAttribute(default_pool(0), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    printf("kept after the second trim: %llu\n", (unsigned long long)reserved);
    return 0;
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

static CUcontext context;
static CUdeviceptr left; /* by the first thread, which its own stream is still to fill with 1 */
static pid_t first_thread;

static void *leave_work(void *unused)
{
    first_thread = gettid();
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuMemAllocAsync(&left, BYTES, CU_STREAM_PER_THREAD));
    spin(&flag, CU_STREAM_PER_THREAD);
    MUST(cu.cuMemsetD8Async(left, 1, BYTES, CU_STREAM_PER_THREAD));
    MUST(cu.cuMemFreeAsync(left, CU_STREAM_PER_THREAD));
    return NULL;
}

static void *allocate_as_another(void *unused)
{
    CUdeviceptr next;
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuMemAllocAsync(&next, BYTES, CU_STREAM_PER_THREAD));
    MUST(cu.cuMemsetD8Async(next, 2, BYTES, CU_STREAM_PER_THREAD));
    MUST(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
    let_go(&flag);
    MUST(cu.cuCtxSynchronize());
    printf("the next thread's buffer holds %u\n", first_byte(next));
    MUST(cu.cuMemFreeAsync(next, CU_STREAM_PER_THREAD));
    return NULL;
}

/* A thread ends with work on its default stream, and a later one has its id. */
STORY(thread_id)
{
    pthread_t thread;
    start();
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    pthread_create(&thread, NULL, leave_work, NULL);
    pthread_join(thread, NULL);
    if (run_in_thread_with_id(first_thread, allocate_as_another, NULL) != 0)
        puts("no thread has got the id");
    return 0;
}

/* A pool's memory is that of its device, whichever device the stream is of. */
STORY(pool_device)
{
    CUdeviceptr buffer;
    int device = -1;
    start();
    use_device(1);
    use_device(0);
    give_access(default_pool(1), 0);
    CUstream stream = new_stream();
    MUST(cu.cuMemAllocFromPoolAsync(&buffer, BYTES, default_pool(1), stream));
    MUST(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, buffer));
    MUST(cu.cuMemsetD8Async(buffer, 3, BYTES, stream));
    MUST(cu.cuStreamSynchronize(stream));
    printf("memory of device %d holds %u\n", device, first_byte(buffer));
    MUST(cu.cuMemFreeAsync(buffer, stream));
    MUST(cu.cuStreamSynchronize(stream));
    return 0;
}

/* What was refused has never been used. */
STORY(high_mark)
{
    CUdeviceptr buffer, none;
    cuuint64_t used = 77;
    start();
    MUST(cu.cuMemAllocAsync(&buffer, BYTES, NULL));
    say("100 GiB", cu.cuMemAllocAsync(&none, (size_t)100 << 30, NULL));
    MUST(cu.cuMemPoolGetAttribute(default_pool(0), CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
    printf("at most %llu were used\n", (unsigned long long)used);
    return 0;
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
