/* Visits to launches: work before and after them, in order, without waiting for them. */
#include "child.h"

#include <sim.h>

#include "base/clock.h"
#include "inspect/inspect.h"
#include "inspect/visits/visits.h"

#include <stdatomic.h>

#define COUNT 1000
#define MOST 2000

/* ---- kernels: of the program, and of the user of visits ---- */

static void add(const cusim_thread *t, void *const *arguments)
{
    uint32_t *numbers = *(uint32_t *const *)arguments[0];
    numbers[0] += *(const uint32_t *)arguments[1];
}

static void look(const cusim_thread *t, void *const *arguments)
{
    **(uint32_t *const *)arguments[0] = **(const uint32_t *const *)arguments[1];
}

static const size_t add_sizes[] = {8, 4}, look_sizes[] = {8, 8};

/* ---- the user ---- */

static struct {
    atomic_size_t count;
    struct {
        uint64_t number;
        enum visit_end how;
        uint32_t before, after;
        size_t reached;
        struct reached first;
        CUstream stream;
    } seen[MOST];
    atomic_int closed;
    size_t wanted_bytes;
} user_saw;

static size_t size(const struct visit *visit)
{
    return user_saw.wanted_bytes;
}

static void look_at(struct visit_part *part, size_t offset)
{
    uint8_t *to = part->memory + offset;
    uint64_t from = part->visit->reached[0].range.address;
    visit_launch(part, 0, 1, 1, (void *[]){&to, &from});
}

static void before(struct visit_part *part)
{
    CHECK(part->bytes == user_saw.wanted_bytes);
    look_at(part, 0);
}

static void after(struct visit_part *part)
{
    visit_copy(part, part->memory + 4, part->visit->reached[0].range.address, 4);
}

static void finished(const struct visit *visit, uint8_t *results, size_t bytes, enum visit_end how)
{
    size_t at = user_saw.count;
    CHECK(at < MOST && (how == VISIT_DONE) == (results != NULL) && (!results || bytes == user_saw.wanted_bytes));
    user_saw.seen[at].number = visit->number;
    user_saw.seen[at].how = how;
    user_saw.seen[at].reached = visit->reached_count;
    user_saw.seen[at].stream = visit->handle;
    if (visit->reached_count)
        user_saw.seen[at].first = visit->reached[0];
    if (results) {
        memcpy(&user_saw.seen[at].before, results, 4);
        memcpy(&user_saw.seen[at].after, results + 4, 4);
    }
    user_saw.count++;
}

static void closed(void)
{
    user_saw.closed++;
}

/* ---- the world ---- */

static CUmodule module;
static CUcontext context;

static void start(void)
{
    static const cusim_kernel kernels[] = {
        {.name = "add", .function = add, .argument_bytes = add_sizes, .argument_count = 2},
        {.name = "other", .function = add, .argument_bytes = add_sizes, .argument_count = 2},
        {.name = "test_look", .function = look, .argument_bytes = look_sizes, .argument_count = 2},
    };
    static struct filter filter;
    static const struct visit_user user = {.ptx = "any",
                                           .kernels = {"test_look"},
                                           .filter = &filter,
                                           .size = size,
                                           .before = before,
                                           .after = after,
                                           .finished = finished,
                                           .closed = closed};
    CHECK(filter_parse(&filter, "*add*"));
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        cusim_register_kernel(&kernels[i]);
    user_saw.wanted_bytes = 8;
    visits_add(&user);
    inspect_register();
    CHECK_OK(cufence_init("say=quiet"));
    context = use_device(0);
    CHECK_CU(cuModuleLoadData(&module, "any"));
}

static uint32_t *allocate(void)
{
    void *pointer = NULL;
    CHECK_OK(cufence_malloc(&pointer, COUNT * 4, 0, NULL));
    CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)pointer, 0, COUNT * 4));
    CHECK_CU(cuStreamSynchronize(NULL));
    return pointer;
}

/* As the hook does. */
static CUresult launch_with(const char *kernel, void **arguments, CUstream stream)
{
    CUfunction function;
    CHECK_CU(cuModuleGetFunction(&function, module, kernel));
    const struct launch_call call = {
        .function = function, .grid = {1, 1, 1}, .block = {1, 1, 1}, .stream = stream, .parameters = arguments};
    const struct launch_event event = {.context = context_current(), .call = &call, .stream = stream};
    inspector_now()->launch_begins(&event);
    CUresult result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
    inspector_now()->launch_ended(result);
    return result;
}

static void launch(const char *kernel, uint32_t *numbers, uint32_t value, CUstream stream)
{
    CHECK_CU(launch_with(kernel, (void *[]){&numbers, &value}, stream));
}

static void await(size_t count)
{
    for (int i = 0; i < 20000 && user_saw.count < count; i++)
        usleep(1000);
    CHECK(user_saw.count == count);
}

/* ---- stories; test_values.c has what is seen before and after, in order, and pointers in structs ---- */

STORY(counts_launches_that_nobody_wants)
{
    start();
    uint32_t *numbers = allocate();
    for (int i = 0; i < 100; i++)
        launch("other", numbers, 1, NULL);
    uint64_t calls = cusim_call_count("cuLaunchKernel");
    launch("add", numbers + 5, 1, NULL);
    await(1);
    CHECK(user_saw.seen[0].number == 101);
    CHECK(cusim_call_count("cuLaunchKernel") - calls == 3); /* it, one before, and the mark */
    CHECK(user_saw.seen[0].first.pointer == (uintptr_t)(numbers + 5) && user_saw.seen[0].first.bytes == COUNT * 4 - 20);
}

/* A stream that waits for the program holds up neither the program nor other streams. */
STORY(waits_for_no_stream)
{
    start();
    uint32_t flag = 0;
    CUstream streams[2];
    uint32_t *numbers[2] = {allocate(), allocate()};
    for (int i = 0; i < 2; i++)
        CHECK_CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    spin_on(module, streams[0], &flag);
    for (int i = 0; i < 100; i++)
        launch("add", numbers[i % 2], 1, streams[i % 2]);
    await(50);
    for (int i = 0; i < 50; i++)
        CHECK(user_saw.seen[i].stream == streams[1] && user_saw.seen[i].after == (uint32_t)i + 1);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    await(100);
    CHECK(user_saw.seen[50].stream == streams[0] && user_saw.seen[99].after == 50);
}

STORY(leaves_captures_alone)
{
    start();
    uint32_t *numbers = allocate();
    CUstream stream;
    CUgraph graph;
    size_t nodes = 0;
    CHECK_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch("add", numbers, 1, stream);
    CHECK_CU(cuStreamEndCapture(stream, &graph));
    CHECK_CU(cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == 1);
    launch("add", numbers, 1, stream);
    await(1);
    CHECK(user_saw.seen[0].number == 2);
}

STORY(works_while_another_stream_captures)
{
    start();
    uint32_t *numbers = allocate();
    CUstream streams[2];
    CUgraph graph;
    for (int i = 0; i < 2; i++)
        CHECK_CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CHECK_CU(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch("add", numbers, 1, streams[1]);
    CHECK_CU(cuStreamEndCapture(streams[0], &graph));
    await(1);
    CHECK(user_saw.seen[0].how == VISIT_DONE && user_saw.seen[0].after == 1);
}

STORY(says_that_there_is_no_room)
{
    start();
    uint32_t *numbers = allocate();
    user_saw.wanted_bytes = VISITS_PINNED + 1;
    launch("add", numbers, 1, NULL);
    user_saw.wanted_bytes = 8;
    launch("add", numbers, 1, NULL);
    await(2);
    CHECK(user_saw.seen[0].how == VISIT_NO_ROOM && user_saw.seen[1].how == VISIT_DONE && user_saw.seen[1].before == 1);
}

/* Memory for two visits at a time is enough for a hundred: the program waits for room. */
STORY(waits_for_room)
{
    start();
    uint32_t *numbers = allocate();
    user_saw.wanted_bytes = VISITS_PINNED / 2 - 4096;
    for (int i = 0; i < 20; i++)
        launch("add", numbers, 1, NULL);
    await(20);
    for (int i = 0; i < 20; i++)
        CHECK(user_saw.seen[i].how == VISIT_DONE && user_saw.seen[i].after == (uint32_t)i + 1);
}

/* It waits once, for as long as is said, while the device waits for the program itself. */
STORY(does_not_wait_for_ever)
{
    start();
    uint32_t flag = 0, *numbers = allocate();
    spin_on(module, NULL, &flag);
    user_saw.wanted_bytes = VISITS_PINNED / 2 - 4096;
    uint64_t begin = monotonic_ms();
    for (int i = 0; i < 20; i++)
        launch("add", numbers, 1, NULL);
    CHECK(monotonic_ms() - begin < 8 * VISIT_WAIT_MS + 1000); /* of 18, if each one waited */
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    await(20);
    int done = 0;
    for (int i = 0; i < 20; i++)
        done += user_saw.seen[i].how == VISIT_DONE;
    CHECK(done == 2);
}

STORY(ends_with_its_context)
{
    start();
    uint32_t flag = 0, *numbers = allocate();
    launch("add", numbers, 1, NULL);
    await(1);
    spin_on(module, NULL, &flag);
    launch("add", numbers, 1, NULL);
    visits_context_gone(context_current());
    await(2);
    CHECK(user_saw.seen[0].how == VISIT_DONE && user_saw.seen[1].how == VISIT_LOST);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK_CU(cuCtxSynchronize());
    launch("add", numbers, 1, NULL); /* as in a new context in the same entry */
    await(3);
    CHECK(user_saw.seen[2].how == VISIT_DONE && user_saw.seen[2].before == 2);
}

STORY(a_refused_launch_is_said)
{
    start();
    uint32_t *numbers = allocate(), value = 1;
    launch("add", numbers, 1, NULL);
    await(1);
    cusim_fail_call("cuLaunchKernel", 2, CUDA_ERROR_INVALID_VALUE); /* the first is the user's */
    CHECK(launch_with("add", (void *[]){&numbers, &value}, NULL) == CUDA_ERROR_INVALID_VALUE);
    launch("add", numbers, 1, NULL);
    await(3);
    CHECK(user_saw.seen[1].how == VISIT_FAILED && user_saw.seen[2].how == VISIT_DONE && user_saw.seen[2].before == 1);
}

STORY(close_waits_for_those_that_are_done)
{
    start();
    uint32_t *numbers = allocate();
    for (int i = 0; i < 100; i++)
        launch("add", numbers, 1, NULL);
    CHECK_CU(cuCtxSynchronize());
    visits_close(5000);
    CHECK(user_saw.count == 100 && user_saw.closed == 1 && user_saw.seen[99].how == VISIT_DONE);
    launch("add", numbers, 1, NULL);
    CHECK(user_saw.count == 100);
}

TEST_CONCURRENTLY
