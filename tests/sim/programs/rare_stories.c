/* Stories about functions that few programs call, and of pools that peers use. */
#include "program.h"

#include <unistd.h>

#define GRANULE ((size_t)2 << 20)

/* What a program may do with memory that it has mapped itself, done with memory that it has not. */
static void map_like_own(CUdeviceptr address)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE};
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = access.location};
    CUmemGenericAllocationHandle own, handle;
    CUdeviceptr page = address / GRANULE * GRANULE;
    uint32_t word = 0;
    MUST(cu.cuMemCreate(&own, GRANULE, &properties, 0));
    say("cuMemRetainAllocationHandle", cu.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address));
    say("cuMemSetAccess", cu.cuMemSetAccess(page, GRANULE, &access, 1));
    say("cuMemMap there", cu.cuMemMap(page, GRANULE, 0, own, 0));
    say("cuMemMap behind", cu.cuMemMap(page + GRANULE, GRANULE, 0, own, 0));
    say("cuMemUnmap", cu.cuMemUnmap(page, GRANULE));
    say("cuMemAddressFree", cu.cuMemAddressFree(page, GRANULE));
    MUST(cu.cuMemRelease(own));
    MUST(cu.cuMemsetD32(address, 7, 1));
    MUST(cu.cuMemcpyDtoH(&word, address, 4));
    printf("it holds %u\n", word);
}

STORY(mapped)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = access.location};
    CUmemGenericAllocationHandle own, again;
    CUdeviceptr address;
    start();
    MUST(cu.cuMemAlloc(&address, 4000));
    map_like_own(address);
    MUST(cu.cuMemAllocAsync(&address, 4000, NULL));
    map_like_own(address);

    MUST(cu.cuMemAddressReserve(&address, GRANULE, 0, 0, 0));
    MUST(cu.cuMemCreate(&own, GRANULE, &properties, 0));
    say("own: cuMemMap", cu.cuMemMap(address, GRANULE, 0, own, 0));
    say("own: cuMemSetAccess", cu.cuMemSetAccess(address, GRANULE, &access, 1));
    say("own: cuMemRetainAllocationHandle", cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address));
    say("own: cuMemUnmap", cu.cuMemUnmap(address, GRANULE));
    say("own: cuMemAddressFree", cu.cuMemAddressFree(address, GRANULE));
    return 0;
}

/* ---- synchronous copies and sets ---- */

static int is_let_go; /* atomic */

static void *let_go_soon(void *flag)
{
    usleep(200000);
    __atomic_store_n(&is_let_go, 1, __ATOMIC_SEQ_CST);
    let_go(flag);
    return NULL;
}

/* Sets the buffer, behind work that is over only after a while. */
static void set_behind_work(const char *what, CUdeviceptr address)
{
    static uint32_t *flag;
    pthread_t thread;
    if (!flag)
        MUST(cu.cuMemHostAlloc((void **)&flag, sizeof *flag, 0));
    *flag = 0;
    __atomic_store_n(&is_let_go, 0, __ATOMIC_SEQ_CST);
    spin(flag, NULL);
    if (pthread_create(&thread, NULL, let_go_soon, flag) != 0)
        exit(2);
    MUST(cu.cuMemsetD8(address, 1, 4000));
    printf("%s: returns %s\n", what, __atomic_load_n(&is_let_go, __ATOMIC_SEQ_CST) ? "when it is done" : "at once");
    pthread_join(thread, NULL);
    MUST(cu.cuCtxSynchronize());
}

static void set_attribute(CUdeviceptr address, unsigned is_on)
{
    unsigned is = 77;
    MUST(cu.cuPointerSetAttribute(&is_on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    MUST(cu.cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    printf("is %u\n", is);
}

STORY(synchronous)
{
    CUdeviceptr address, other;
    unsigned is_on = 1;
    start();
    MUST(cu.cuMemAlloc(&address, 4000));
    MUST(cu.cuMemAlloc(&other, 4000));
    set_behind_work("as it is", address);
    set_attribute(address, 1);
    set_behind_work("with SYNC_MEMOPS", address);
    set_behind_work("another buffer", other);
    set_attribute(address, 0);
    set_behind_work("no more", address);
    set_attribute(address + 100, 1);
    MUST(cu.cuMemFree(address));
    say("a freed one", cu.cuPointerSetAttribute(&is_on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    MUST(cu.cuMemAlloc(&address, 4000));
    set_behind_work("the next buffer", address);
    return 0;
}

/* ---- nodes ---- */

/* What a captured graph tells of the memory that it allocates. */
STORY(nodes_told)
{
    CUdeviceptr address, told = 0;
    CUgraph graph;
    CUgraphNode nodes[8];
    CUDA_MEM_ALLOC_NODE_PARAMS allocation;
    size_t found = 8;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemAllocAsync(&address, 4000, stream));
    MUST(cu.cuMemsetD8Async(address, 1, 4000, stream));
    MUST(cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphGetNodes(graph, nodes, &found));
    for (size_t i = 0; i < found; i++) {
        if (cu.cuGraphMemAllocNodeGetParams(nodes[i], &allocation) != CUDA_SUCCESS)
            continue;
        printf("allocates %zu bytes at %s\n", allocation.bytesize, allocation.dptr == address ? "the address" : "another");
        told = allocation.dptr;
    }
    CUgraphExec executable;
    MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cu.cuGraphLaunch(executable, stream));
    say("free of what was told", cu.cuMemFreeAsync(told, stream));
    MUST(cu.cuStreamSynchronize(stream));

    /* The next launch allocates it again, and another graph may use it then. */
    CUgraph other;
    CUcontext context;
    const CUDA_MEMSET_NODE_PARAMS set = {.dst = told, .value = 5, .elementSize = 1, .width = 4000, .height = 1};
    uint32_t word = 0;
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuGraphCreate(&other, 0));
    say("a node for later", cu.cuGraphAddMemsetNode(nodes, other, NULL, 0, &set, context));
    MUST(cu.cuGraphLaunch(executable, stream));
    MUST(cu.cuGraphInstantiateWithFlags(&executable, other, 0));
    MUST(cu.cuGraphLaunch(executable, stream));
    MUST(cu.cuMemcpyDtoHAsync(&word, told, 4, stream));
    MUST(cu.cuStreamSynchronize(stream));
    printf("it holds %x\n", word);
    return 0;
}

/* A node that sets or copies one element too many. */
STORY(nodes_beyond)
{
    const char *how = count > 2 ? arguments[2] : "set";
    static unsigned char host[8192];
    CUdeviceptr address;
    CUgraph graph;
    CUgraphNode node;
    CUcontext context;
    start();
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuMemAlloc(&address, 4000));
    MUST(cu.cuGraphCreate(&graph, 0));
    CUDA_MEMSET_NODE_PARAMS set = {.dst = address, .value = 5, .elementSize = 4, .width = 1001, .height = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = address,
                          .WidthInBytes = 4001,
                          .Height = 1,
                          .Depth = 1};
    if (strcmp(how, "set") == 0)
        say("cuGraphAddMemsetNode", cu.cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    else
        say("cuGraphAddMemcpyNode", cu.cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    set.width = 1000;
    copy.WidthInBytes = 4000;
    say("a good set", cu.cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, context));
    say("a good copy", cu.cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context));
    return 0;
}

/* ---- memory that a peer uses ---- */

#define BYTES 4096

static uint32_t own_flag;

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
    spin(&own_flag, NULL);
    MUST(store(shared + 100, 1, NULL));
    MUST(cu.cuCtxSetCurrent(owner));
    say("cuMemFree", cu.cuMemFree(shared));
    let_go(&own_flag);
    use_device(1);
    return say("the peer's kernel", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}

/* ---- a driver that is newer than all headers: see newer= in allocator/sim/sim.h ---- */

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
