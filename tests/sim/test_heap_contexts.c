/* The C API without the preload library: contexts that end. The device is strict: it aborts the program if cufence makes a
 * context current that is gone. */
#include "heap/heap.h"
#include "heap_story.h"

#define MOST (40 * MIB) /* of the device's 64 MiB: fits once */

/* Creates a context of the program's own and leaves it current. */
static CUcontext new_context(void)
{
    CUcontext own;
    CHECK_CU(cuCtxCreate(&own, NULL, 0, 0));
    return own;
}

static void expect_gone(void *pointer)
{
    cufence_description where = {.struct_size = sizeof where};
    CHECK_OK(cufence_describe(pointer, &where));
    CHECK(where.place == CUFENCE_PLACE_FREED && !where.buffer.is_mapped);
    CHECK(cufence_free(pointer, NULL) == CUFENCE_ERROR_DOUBLE_FREE);
    CHECK(where.buffer.freed_tid == 0 && strstr(cufence_error_detail(), "bytes, which ended with its context"));
}

/* Every context is visited, since memory runs out. */
static void expect_visits(void)
{
    void *pointer;
    CHECK(cufence_malloc(&pointer, 100 * MIB, -1, NULL) == CUFENCE_ERROR_OUT_OF_MEMORY);
    CHECK_OK(cufence_trim(-1));
    CHECK_OK(cufence_wait_reports(REPORT_MS));
}

static void wait_for_the_background(void)
{
    usleep(250000); /* it looks around every 100 ms */
}

/* ---- announced ---- */

static void announced(void)
{
    allocate(100, NULL);
    CUcontext own = new_context();
    void *live = allocate(MOST, NULL), *freed = allocate(PAGE, NULL);
    CHECK_OK(cufence_free(freed, NULL));
    CHECK_OK(cufence_context_gone(own));
    expect_gone(live);
    CHECK_CU(cuCtxDestroy(own));
    wait_for_the_background();
    CHECK_CU(cuCtxSetCurrent(context));
    expect_visits();
    allocate(MOST, NULL); /* its memory is available again */
}

STORY(announced_plain)
{
    start(NULL);
    announced();
}

STORY(announced_strict)
{
    start("uaf=strict");
    announced();
}

/* What is told twice, or about a context that cufence does not know, changes nothing. */
STORY(told_of_others)
{
    CHECK(cufence_context_gone(context) == CUFENCE_ERROR_NOT_INITIALIZED);
    start(NULL);
    CHECK(cufence_context_gone(NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    void *pointer = allocate(100, NULL);
    CUcontext own = new_context();
    CHECK_OK(cufence_context_gone(own));
    allocate(100, NULL);
    CHECK_OK(cufence_context_gone(own));
    CHECK_OK(cufence_context_gone(own));
    CHECK_CU(cuCtxDestroy(own));
    CHECK_OK(cufence_context_gone(own));
    CHECK_CU(cuCtxSetCurrent(context));
    CHECK_OK(cufence_free(pointer, NULL));
}

static void *let_go_later(void *flag)
{
    usleep(100000);
    __atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELEASE);
    return NULL;
}

STORY(waits_for_its_work)
{
    static uint32_t flag;
    pthread_t thread;
    start(NULL);
    CUcontext own = new_context();
    CUstream stream = new_stream();
    char *live = allocate(PAGE, NULL);
    spin(stream, &flag);
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)live, 1, PAGE, stream)); /* faults if the buffer is unmapped by then */
    CHECK(pthread_create(&thread, NULL, let_go_later, &flag) == 0);
    CHECK_OK(cufence_context_gone(own));
    CHECK_CU(cuStreamQuery(stream));
    CHECK_CU(cuCtxDestroy(own));
    pthread_join(thread, NULL);
}

/* It has as many streams as it can have, so that the default stream of its own context cannot be noted beside the caller's. */
STORY(freed_elsewhere_with_too_many_streams)
{
    static uint32_t flag;
    start("uaf=strict");
    char *buffer = allocate(PAGE, NULL);
    cufence_status status = CUFENCE_OK;
    for (int i = 0; i <= 1024 && status == CUFENCE_OK; i++)
        status = cufence_record_stream(buffer, new_stream());
    CHECK(status == CUFENCE_ERROR_OUT_OF_MEMORY);
    spin(NULL, &flag);
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffer, 1, PAGE, NULL)); /* faults if the buffer is unmapped by then */
    CUcontext own = new_context();
    CHECK_OK(cufence_free(buffer, NULL));
    wait_for_the_background();
    CHECK(!is_retired(buffer));
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK_OK(cufence_context_gone(own));
    CHECK_CU(cuCtxDestroy(own));
    CHECK_CU(cuCtxSetCurrent(context));
    CHECK_OK(cufence_trim(-1));
    CHECK(is_retired(buffer));
}

/* ---- pools ---- */

static int filters, forgotten; /* of the user whose number is passed */

static int claims_none(CUstream stream, void *user)
{
    (void)stream, (void)user;
    filters++;
    return 0;
}

/* Calls cufence, which may be done where no lock is held. */
static void forget(void *user)
{
    CHECK(user == &filters && cufence_trim(-1) == CUFENCE_OK);
    forgotten++;
}

static const uint64_t pool[2] = {1, 2};

static void begin_pool(void)
{
    forgotten = filters = 0;
    CHECK_OK(cufence_pool_begin(-1, pool, claims_none, &filters, forget));
    CHECK(cufence_pool_begin(-1, pool, claims_none, &filters, forget) == CUFENCE_ERROR_INVALID_ARGUMENT);
    allocate(100, NULL);
    CHECK(filters == 1 && !forgotten);
}

STORY(a_pool_ends_with_its_context)
{
    start(NULL);
    CUcontext own = new_context();
    begin_pool();
    CHECK_OK(cufence_context_gone(own));
    CHECK(forgotten == 1);
    CHECK_CU(cuCtxDestroy(own));
    own = new_context();
    CHECK(cufence_pool_end(-1, pool) == CUFENCE_ERROR_NOT_FOUND && forgotten == 1);
    begin_pool();
    CHECK_OK(cufence_pool_end(-1, pool));
    CHECK(forgotten == 1 && cufence_pool_end(-1, pool) == CUFENCE_ERROR_NOT_FOUND);
    CHECK_OK(cufence_context_gone(own));
    CHECK(forgotten == 1);
    CHECK_CU(cuCtxDestroy(own));
}

/* While a capture keeps the driver from waiting, the context stays as it is. */
STORY(a_capture_is_in_the_way)
{
    start(NULL);
    CUcontext own = new_context();
    CUstream stream = new_stream();
    CUgraph graph;
    void *live = allocate(100, NULL);
    CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cufence_context_gone(own) == CUFENCE_ERROR_DRIVER);
    CHECK(strstr(cufence_error_detail(), "cuCtxSynchronize") != NULL);
    cuStreamEndCapture(stream, &graph);
    CHECK_OK(cufence_free(live, NULL));
    live = allocate(100, NULL);
    CHECK_OK(cufence_context_gone(own));
    expect_gone(live);
    CHECK_CU(cuCtxDestroy(own));
}

/* cufence retains the primary context of a device that it was given, and would keep it alive. */
STORY(a_last_release_is_the_last)
{
    unsigned flags;
    int is_active = 1;
    void *pointer;
    start(NULL);
    CHECK_OK(cufence_malloc(&pointer, MOST, 0, NULL));
    CHECK_OK(cufence_context_gone(context));
    CHECK_CU(cuDevicePrimaryCtxRelease(0));
    CHECK_CU(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    CHECK(!is_active);
    expect_gone(pointer);
    CHECK_OK(cufence_malloc(&pointer, MOST, 0, NULL)); /* in a new one */
    CHECK_CU(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_OK(cufence_context_gone(context));
    CHECK_CU(cuDevicePrimaryCtxReset(0));
    CHECK_CU(cuCtxSetCurrent(NULL));
    CHECK_OK(cufence_malloc(&pointer, MOST, 0, NULL));
}

/* ---- memory of pools, which outlives its context ---- */

STORY(what_is_freed_while_its_context_ends_is_the_streams)
{
    void *pointer;
    struct heap_claim claim;
    CUstream other = start_with_stream(NULL);
    CUcontext own = new_context();
    const struct heap_request wanted = {.size = MOST, .context = context_of(own), .device = 0, .owner = 3};
    CHECK(heap_allocate(&pointer, &wanted, NULL) == CUFENCE_OK);
    struct books *held = heap_hold(wanted.context, 1);
    CHECK_CU(cuCtxSetCurrent(context));
    CHECK(heap_claim(pointer, &claim) == CUFENCE_OK);
    heap_free(&claim, stream_resolve(other), HEAP_STREAM, NULL);
    CHECK(heap_figures(wanted.context).mapped == 0 && heap_figures(context_of(context)).idle == MOST);
    struct context_end end = context_ends(own);
    CHECK_CU(cuCtxDestroy(own));
    context_ended(end, 0);
    heap_go_on(held);
    CHECK(allocate(MOST, other) == pointer);
}

/* ---- primary contexts that end unannounced ---- */

static void unannounced(void (*end)(void))
{
    void *live = allocate(MOST, NULL), *freed = allocate(PAGE, NULL);
    CHECK_OK(cufence_free(freed, NULL));
    CUcontext own = new_context();
    end();
    expect_visits();
    expect_gone(live);
    allocate(MOST, NULL);
    CHECK_OK(cufence_context_gone(own));
    CHECK_CU(cuCtxDestroy(own));
}

static void release(void)
{
    CHECK_CU(cuDevicePrimaryCtxRelease(0));
}

static void reset_and_retain(void)
{
    /* The background thread asks whether a context is there, and then enters it: no reset may fall between. */
    struct books *held = heap_hold(context_known(context), 1);
    CHECK_CU(cuDevicePrimaryCtxReset(0));
    CHECK_CU(cuDevicePrimaryCtxRetain(&context, 0)); /* another one, or the same handle */
    heap_go_on(held);
}

STORY(release_unannounced)
{
    start(NULL);
    unannounced(release);
}

STORY(reset_unannounced)
{
    start(NULL);
    unannounced(reset_and_retain);
}

/* The end is noticed by a call for the context that has its place. */
STORY(a_pool_ends_with_its_context_unannounced)
{
    start("slack=off"); /* no work of cufence's own is under way at the reset */
    begin_pool();
    reset_and_retain();
    allocate(100, NULL);
    CHECK(cufence_pool_end(-1, pool) == CUFENCE_ERROR_NOT_FOUND && forgotten == 1);
    begin_pool();
    reset_and_retain();
    CHECK_OK(cufence_pool_begin(-1, pool, claims_none, &filters, forget));
    CHECK(forgotten == 1);
    CHECK_OK(cufence_pool_end(-1, pool));
    CHECK(forgotten == 2);
}

STORY(reset_of_one_that_is_held)
{
    void *pointer;
    start(NULL);
    CHECK_OK(cufence_malloc(&pointer, PAGE, 0, NULL));
    unannounced(reset_and_retain);
    expect_gone(pointer);
}

STORY(release_seen_by_the_background)
{
    cufence_description where = {.struct_size = sizeof where};
    start("uaf=strict");
    void *live = allocate(MOST, NULL);
    CHECK_CU(cuDevicePrimaryCtxRelease(0));
    AWAIT(cufence_describe(live, &where) == CUFENCE_OK && where.place == CUFENCE_PLACE_FREED);
    CHECK(where.place == CUFENCE_PLACE_FREED);
}

/* The wait launches a small kernel in every context. */
STORY(release_before_a_wait_for_reports)
{
    start(NULL);
    allocate(PAGE, NULL);
    CHECK_CU(cuDevicePrimaryCtxRelease(0));
    CHECK_OK(cufence_wait_reports(REPORT_MS));
}

static void *check(void *unused)
{
    CHECK(found_by_check(0) == 0);
    return unused;
}

static int primary_is_active(void)
{
    unsigned flags;
    int is_active = 0;
    CHECK_CU(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    return is_active;
}

/* A thread has seen that the context is there, and is about to make it current. */
STORY(release_during_a_visit)
{
    pthread_t thread;
    start(NULL);
    allocate(PAGE, NULL);
    cusim_set_latency("cuCtxPushCurrent", 300000);
    CHECK(pthread_create(&thread, NULL, check, NULL) == 0);
    usleep(100000);
    CHECK_CU(cuDevicePrimaryCtxRelease(0));
    pthread_join(thread, NULL);
    cusim_set_latency("cuCtxPushCurrent", 0);
    AWAIT(!primary_is_active());
    CHECK(!primary_is_active());
}

STORY(release_before_the_exit)
{
    start("");
    allocate(MOST, NULL);
    CHECK_CU(cuDevicePrimaryCtxRelease(0));
}

/* One that lives on keeps its buffers, while others retain and release it. */
STORY(a_living_one_stays)
{
    CUcontext again;
    start(NULL);
    void *live = allocate(PAGE, NULL);
    CUcontext own = new_context();
    CHECK_CU(cuDevicePrimaryCtxRetain(&again, 0));
    CHECK_CU(cuDevicePrimaryCtxRelease(0));
    expect_visits();
    wait_for_the_background();
    CHECK_OK(cufence_context_gone(own));
    CHECK_CU(cuCtxDestroy(own));
    CHECK_CU(cuCtxSetCurrent(context));
    CHECK_OK(cufence_free(live, NULL));
    CHECK_CU(cuDevicePrimaryCtxRelease(0));
    AWAIT(!primary_is_active()); /* the background may be asking just now */
    CHECK(!primary_is_active()); /* no question has left it retained */
}

static int set_up(void **state)
{
    return setenv("CUFENCE_SIM", "devices=2,memory=64M,strict=1", 1);
}
TEST_GROUP(set_up, NULL)
TEST_CONCURRENTLY
