/* What the hooks note for a second launch: pinned memory, and kernels that a program puts into graphs. */
#include "hooked.h"

#include "base/clock.h"

#undef cuGraphAddKernelNode
#define cuGraphAddKernelNode cuGraphAddKernelNode_v2

/* ---- pinned memory ---- */

static int kind_at(const void *address)
{
    struct pinned found;
    return pinned_find((uint64_t)(uintptr_t)address, &found) ? (int)found.kind : -1;
}

STORY(pinned_memory_has_kinds)
{
    static char own[8192];
    char *allocated, *pinned;
    CUdeviceptr managed;
    struct pinned found;
    start_hooked("explain=rerun");
    CHECK_CU(hook_cuMemAllocHost_v2((void **)&allocated, 1000));
    CHECK_CU(hook_cuMemHostAlloc((void **)&pinned, 10, 0));
    CHECK_CU(hook_cuMemHostRegister_v2(own, 8192, 0));
    CHECK_CU(hook_cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    CHECK(kind_at(allocated + 999) == PINNED_HOST && kind_at(allocated + 1000) == -1 && kind_at(allocated - 1) == -1);
    CHECK(kind_at(pinned) == PINNED_HOST && kind_at(own + 100) == PINNED_HOST);
    CHECK(kind_at((void *)(uintptr_t)managed) == PINNED_MANAGED);
    CHECK(pinned_find((uint64_t)(uintptr_t)own + 4096, &found) && found.address == (uint64_t)(uintptr_t)own &&
          found.bytes == 8192);

    CHECK(hook_cuMemFreeHost(own) != CUDA_SUCCESS && kind_at(own) == PINNED_HOST);
    CHECK(hook_cuMemHostUnregister(pinned) != CUDA_SUCCESS && kind_at(pinned) == PINNED_HOST);
    CHECK_CU(hook_cuMemFreeHost(allocated));
    CHECK_CU(hook_cuMemHostUnregister(own));
    CHECK_CU(hook_cuMemFree_v2(managed));
    CHECK(kind_at(allocated) == -1 && kind_at(own) == -1 && kind_at((void *)(uintptr_t)managed) == -1);
    CHECK(kind_at(pinned) == PINNED_HOST);
    CHECK_CU(hook_cuDevicePrimaryCtxReset_v2(0));
    CHECK(kind_at(pinned) == -1);
}

/* More blocks than the first table has room for. */
TEST(test_many)
{
    uint64_t numbers[1000];
    struct pinned found;
    for (uint64_t i = 0; i < 1000; i++) {
        pinned_add(NULL, i * 100 + 100, 50, PINNED_HOST);
        numbers[i] = pinned_number(i * 100 + 100);
    }
    pinned_remove(50100, numbers[500]);
    pinned_add(NULL, 50100, 10, PINNED_MANAGED); /* the same address again: only the number tells them apart */
    pinned_remove(50100, numbers[500]);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(pinned_find(i * 100 + 105, &found));
        assert_int_equal(found.kind, i == 500 ? PINNED_MANAGED : PINNED_HOST);
        assert_false(pinned_find(i * 100 + 150, &found));
    }
    pinned_forget_context(NULL);
    assert_false(pinned_find(105, &found));
    assert_int_equal(pinned_number(100), 0);
}

/* The thread that freed a block may tell of it only after another thread was given its memory. */
TEST(a_block_in_the_place_of_others)
{
    struct pinned found;
    pinned_add(NULL, 0x1000, 0x100, PINNED_HOST);
    pinned_add(NULL, 0x1100, 0x100, PINNED_HOST);
    uint64_t first = pinned_number(0x1000), second = pinned_number(0x1100);
    pinned_add(NULL, 0x1080, 0x100, PINNED_MANAGED);
    assert_false(pinned_find(0x1000, &found) || pinned_find(0x1180, &found));
    assert_true(pinned_find(0x1100, &found) && found.kind == PINNED_MANAGED && found.address == 0x1080);
    pinned_remove(0x1000, first);
    pinned_remove(0x1100, second);
    pinned_remove(0x1080, second);
    assert_true(pinned_find(0x1080, &found));
    pinned_remove(0x1080, pinned_number(0x1080));
    assert_false(pinned_find(0x1080, &found));
    pinned_add(NULL, 0x1000, 0, PINNED_HOST); /* nothing of it can be reached */
    assert_int_equal(pinned_number(0x1000), 0);
}

static double seconds_used(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* Each step takes the same time among many blocks as among few, or nearly. A list takes over 10 s here. */
TEST(many_blocks_take_little_time)
{
    enum { MANY = 40000 };
    static uint64_t entries[2]; /* whose addresses stand for contexts, which are only compared */
    struct context *const contexts[] = {(void *)&entries[0], (void *)&entries[1]};
    struct pinned found;
    double begin = seconds_used();
    for (uint64_t i = 0; i < MANY; i++)
        pinned_add(contexts[i & 1], (i + 1) << 12, 64, PINNED_HOST);
    for (uint64_t i = 0; i < MANY; i++)
        assert_true(pinned_find(((i + 1) << 12) + 63, &found) && found.address == (i + 1) << 12);
    for (uint64_t i = 0; i < MANY / 2; i++)
        pinned_remove((i + 1) << 12, pinned_number((i + 1) << 12));
    pinned_forget_context(contexts[0]);
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(pinned_find((i + 1) << 12, &found), i >= MANY / 2 && (i & 1));
    pinned_forget_context(contexts[1]);
    assert_false(pinned_find(MANY << 12, &found));
    assert_true(seconds_used() - begin < 2);
}

/* ---- what another thread does while the driver ends a context: it gets the handles of what has just ended ---- */

static struct used {
    CUcontext context; /* which is current */
    CUstream stream;
    CUdeviceptr plain, pool;
} old, fresh;

static void use(struct used *used, CUstream wanted)
{
    CHECK_CU(cuCtxGetCurrent(&used->context));
    do /* events have had handles, too */
        CHECK_CU(cuStreamCreate(&used->stream, CU_STREAM_NON_BLOCKING));
    while (wanted && used->stream != wanted);
    CHECK_CU(hook_cuMemAlloc_v2(&used->plain, COUNT));
    CHECK_CU(hook_cuMemAllocAsync(&used->pool, COUNT, used->stream));
    CHECK_CU(cuMemsetD8Async(used->pool, 1, COUNT, used->stream));
}

static void expect_used(const struct used *used)
{
    struct heap_range plain, pool;
    struct context *own = context_current();
    CHECK(heap_range_of(used->plain, &plain) && heap_range_of(used->pool, &pool));
    CHECK(plain.context == own && pool.context == own && stream_resolve(used->stream)->context == own);
    CHECK_CU(hook_cuMemFreeAsync(used->pool, used->stream));
    CHECK_CU(hook_cuStreamSynchronize(used->stream));
    CHECK_CU(hook_cuMemFree_v2(used->plain));
    CHECK_CU(hook_cuStreamDestroy_v2(used->stream));
}

static void expect_ended(const struct used *used)
{
    struct heap_range range;
    CHECK(!heap_range_of(used->plain, &range));
    CHECK_CU(hook_cuMemFree_v2(used->pool));
    CHECK(cusim_stale_handles() == 0);
}

static void begin_own(void)
{
    CUcontext own;
    start_hooked("explain=off");
    CHECK_CU(hook_cuCtxCreate_v2(&own, 0, 0));
    use(&old, NULL);
}

static CUresult fails(CUcontext context)
{
    (void)context;
    CHECK(stream_resolve(old.stream)->context == context_current());
    use(&fresh, NULL);
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult is_another(CUcontext context)
{
    CUcontext other;
    CHECK_CU(real.cuCtxDestroy_v2(context));
    CHECK_CU(hook_cuCtxCreate_v2(&other, 0, 0));
    CHECK(other == context);
    use(&fresh, old.stream);
    expect_used(&fresh); /* also ends its stream */
    use(&fresh, old.stream);
    return CUDA_SUCCESS;
}

STORY(a_context_gets_the_handle_of_one_that_ends)
{
    begin_own();
    CHECK(context_destroy(fails, old.context) == CUDA_ERROR_INVALID_VALUE);
    expect_used(&fresh);
    CHECK_CU(context_destroy(is_another, old.context));
    expect_used(&fresh);
    expect_ended(&old);
    CHECK_CU(hook_cuCtxDestroy_v2(fresh.context));
}

static CUresult is_destroyed(CUcontext context)
{
    CHECK_CU(real.cuCtxDestroy_v2(context));
    use(&fresh, old.stream); /* in the primary context */
    return CUDA_SUCCESS;
}

STORY(a_stream_gets_the_handle_of_one_that_ends)
{
    begin_own();
    CHECK_CU(context_destroy(is_destroyed, old.context));
    expect_used(&fresh);
    expect_ended(&old);
}

static CUresult is_retained_again(CUdevice device)
{
    CUcontext primary;
    CHECK_CU(real.cuDevicePrimaryCtxRelease_v2(device));
    CHECK_CU(hook_cuDevicePrimaryCtxRetain(&primary, device));
    CHECK_CU(cuCtxSetCurrent(primary));
    CHECK(primary == old.context);
    use(&fresh, NULL);
    return CUDA_SUCCESS;
}

STORY(a_primary_context_gets_the_handle_of_the_last)
{
    CUcontext primary;
    start_hooked("explain=off");
    use(&old, NULL);
    CHECK_CU(cuDevicePrimaryCtxRetain(&primary, 0)); /* unseen: a release may be the last, and is not */
    CHECK_CU(primary_release(is_retained_again, 0));
    expect_used(&fresh);
    CHECK_CU(real.cuDevicePrimaryCtxRelease_v2(0));
    CHECK_CU(primary_release(is_retained_again, 0));
    expect_used(&fresh);
    expect_ended(&old);
}

static CUgreenCtx new_green(void)
{
    CUdevResource all;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUcontext own;
    CHECK_CU(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK_CU(cuDevResourceGenerateDesc(&description, &all, 1));
    CHECK_CU(hook_cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK_CU(cuCtxFromGreenCtx(&own, green));
    CHECK_CU(cuCtxSetCurrent(own));
    return green;
}

static CUresult (*destroy_green)(CUgreenCtx green);

static CUresult green_destroyed(CUgreenCtx green)
{
    CUcontext other;
    CHECK_CU(destroy_green(green));
    CHECK_CU(hook_cuCtxCreate_v2(&other, 0, 0));
    CHECK(other == old.context);
    use(&fresh, NULL);
    return CUDA_SUCCESS;
}

STORY(a_context_gets_the_handle_of_a_green_one)
{
    start_hooked("explain=off");
    CUgreenCtx green = new_green();
    use(&old, NULL);
    destroy_green = real.cuGreenCtxDestroy;
    real.cuGreenCtxDestroy = green_destroyed;
    CHECK_CU(hook_cuGreenCtxDestroy(green));
    expect_used(&fresh);
    CHECK_CU(hook_cuMemFree_v2(old.plain)); /* the primary's, so it is still there */
    expect_ended(&old);
}

static const CUmemPoolProps pool_properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

/* The driver has destroyed it, and another thread's new pool has its handle. */
static CUresult pool_is_another(CUmemoryPool handle)
{
    pool_created(handle, &pool_properties);
    return CUDA_SUCCESS;
}

STORY(a_pool_gets_the_handle_of_one_that_ends)
{
    CUmemoryPool pool;
    CUdeviceptr pointer, other;
    start_hooked("explain=off");
    CHECK_CU(hook_cuMemPoolCreate(&pool, &pool_properties));
    unsigned first = pool_of_handle(pool);
    CHECK_CU(hook_cuMemAllocFromPoolAsync(&pointer, COUNT, pool, NULL));
    cusim_fail_call("cuMemPoolDestroy", 1, CUDA_ERROR_INVALID_VALUE);
    CHECK(hook_cuMemPoolDestroy(pool) == CUDA_ERROR_INVALID_VALUE && pool_of_handle(pool) == first);
    real.cuMemPoolDestroy = pool_is_another;
    CHECK_CU(hook_cuMemPoolDestroy(pool));
    unsigned second = pool_of_handle(pool);
    CHECK(first && second && first != second);
    CHECK_CU(hook_cuMemAllocFromPoolAsync(&other, COUNT, pool, NULL));
    CHECK(heap_owns(other));
    CHECK_CU(hook_cuMemFreeAsync(pointer, NULL));
    CHECK_CU(hook_cuMemFreeAsync(other, NULL));
    CHECK(pool_handle(first) == NULL && pool_handle(second) == pool);
}

static void *destroy_context(void *context)
{
    CHECK_CU(hook_cuCtxDestroy_v2(context));
    return NULL;
}

STORY(a_pool_ends_where_another_thread_has_destroyed_the_current_context)
{
    CUmemoryPool pool;
    CUcontext context;
    pthread_t thread;
    start_hooked("explain=off");
    CHECK_CU(hook_cuMemPoolCreate(&pool, &pool_properties));
    CHECK_CU(hook_cuCtxCreate_v2(&context, 0, 0));
    pthread_create(&thread, NULL, destroy_context, context);
    pthread_join(thread, NULL);
    CHECK_CU(hook_cuMemPoolDestroy(pool));
    CHECK(cusim_stale_handles() == 0);
}

/* ---- graphs ---- */

static CUgraphNode add_node(CUgraph graph, void *out, int n, CUDA_KERNEL_NODE_PARAMS *node)
{
    CUgraphNode added;
    void *arguments[] = {&out, &n};
    *node = (CUDA_KERNEL_NODE_PARAMS){
        .gridDimX = 8, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1};
    CHECK_CU(cuModuleGetFunction(&node->func, module, "write_last"));
    node->kernelParams = arguments;
    CHECK_CU(hook_cuGraphAddKernelNode_v2(&added, graph, NULL, 0, node));
    node->kernelParams = NULL;
    return added;
}

TELLS(node, PAST_THE_END, THREAD_PAST_THE_END, WRITTEN_PAST_THE_END, "1 launch seen")
{
    CUgraph graph;
    CUgraphExec executable;
    CUDA_KERNEL_NODE_PARAMS node;
    start_hooked("explain=rerun");
    void *out = allocate(COUNT * 4);
    CHECK_CU(cuGraphCreate(&graph, 0));
    add_node(graph, out, COUNT, &node);
    CHECK_CU(hook_cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK_CU(hook_cuGraphLaunch(executable, NULL));
    hook_cuCtxSynchronize();
}

/* The node is changed after it was instantiated, and there is another one that is well. Many launches push none of them out. */
TELLS(updated, "0 bytes past the end of buffer #2", THREAD_PAST_THE_END, "re-run$", "3,001 launches seen")
{
    CUgraph graph;
    CUgraphExec executable;
    CUDA_KERNEL_NODE_PARAMS node, second;
    start_hooked("explain=rerun");
    void *right = allocate(2 * COUNT * 4), *wrong = allocate(COUNT * 4);
    int n = COUNT;
    CHECK_CU(cuGraphCreate(&graph, 0));
    CUgraphNode first = add_node(graph, right, COUNT, &node);
    add_node(graph, right, COUNT - 1, &second);
    CHECK_CU(hook_cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int i = 0; i < 3000; i++)
        CHECK_CU(hook_cuGraphLaunch(executable, NULL));
    CHECK_CU(hook_cuCtxSynchronize());
    node.kernelParams = (void *[]){&wrong, &n};
    CHECK_CU(hook_cuGraphExecKernelNodeSetParams_v2(executable, first, &node));
    CHECK_CU(hook_cuGraphLaunch(executable, NULL));
    hook_cuCtxSynchronize();
}

/* It is the first arguments that were wrong, which only the record of the node's creation has. */
TELLS(old, "0 bytes past the end of buffer #2", THREAD_PAST_THE_END, "re-run$")
{
    CUgraph graph;
    CUgraphExec executable;
    CUDA_KERNEL_NODE_PARAMS node;
    start_hooked("explain=rerun");
    void *right = allocate(2 * COUNT * 4), *wrong = allocate(COUNT * 4);
    int n = COUNT;
    CHECK_CU(cuGraphCreate(&graph, 0));
    CUgraphNode first = add_node(graph, wrong, COUNT, &node);
    CHECK_CU(hook_cuGraphInstantiateWithFlags(&executable, graph, 0));
    node.kernelParams = (void *[]){&right, &n};
    CHECK_CU(hook_cuGraphExecKernelNodeSetParams_v2(executable, first, &node));
    for (int i = 0; i < 3000; i++)
        CHECK_CU(hook_cuGraphLaunch(executable, NULL));
    CHECK_CU(hook_cuCtxSynchronize());
    CHECK_CU(hook_cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK_CU(hook_cuGraphLaunch(executable, NULL));
    hook_cuCtxSynchronize();
}

/* ---- a capture that begins while another thread waits for the device ---- */

static CUcontext here;

static void *synchronise(void *unused)
{
    CHECK_CU(cuCtxSetCurrent(here));
    heap_synchronise();
    return unused;
}

static void *ask_once_noted(void *unused)
{
    while (!heap_may_capture())
        usleep(100);
    heap_captures();
    return unused;
}

static pthread_t hold_up(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    const uint64_t before = cusim_call_count("cuCtxSynchronize");
    CHECK_CU(cuCtxGetCurrent(&here));
    cusim_set_latency("cuCtxSynchronize", 200000);
    pthread_create(&thread, NULL, run, argument);
    while (cusim_call_count("cuCtxSynchronize") == before)
        usleep(100);
    return thread;
}

static void *begin(void *unused)
{
    CUstream stream;
    CHECK_CU(cuCtxSetCurrent(here));
    CHECK_CU(hook_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_CU(hook_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    return unused;
}

/* It waits for the thread that synchronises; meanwhile another one asks. */
STORY(a_capture_is_known_from_before_it_begins)
{
    pthread_t asking;
    start_hooked("");
    pthread_t synchronising = hold_up(synchronise, NULL);
    pthread_create(&asking, NULL, ask_once_noted, NULL);
    begin(NULL);
    pthread_join(asking, NULL);
    CHECK(heap_captures());
    pthread_join(synchronising, NULL);
}

static void *free_there(void *buffer)
{
    CHECK_CU(cuCtxSetCurrent(here));
    CHECK_CU(hook_cuMemFree_v2((CUdeviceptr)(uintptr_t)buffer));
    return NULL;
}

STORY(the_second_capture_waits_for_a_free_too)
{
    pthread_t first;
    start_hooked("");
    void *buffer = allocate(4);
    uint64_t began = monotonic_ms(); /* before the free has begun: it takes longer than the wait */
    pthread_t freeing = hold_up(free_there, buffer);
    pthread_create(&first, NULL, begin, NULL);
    usleep(10000);
    begin(NULL);
    CHECK(monotonic_ms() - began >= 50);
    pthread_join(freeing, NULL);
    pthread_join(first, NULL);
}

TEST_CONCURRENTLY
