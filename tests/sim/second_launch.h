/*
 * What the tests of the second launch share: a program that launches kernels of rerun_kernels.c and faults. Include it once.
 */
#pragma once

#include "child.h"
#include "support/unfold.h"

#include "launch/launch.h"
#include "launch/pinned_memory.h"

#include <sim.h>

#if defined(__SANITIZE_THREAD__) /* it leaves the simulated device little address space, elsewhere */
#define HAS_USUAL_ADDRESSES 0
#else
#define HAS_USUAL_ADDRESSES 1
#endif

#define COUNT 1000

static CUmodule module;
static unsigned blocks = 8;

/* Options are in the environment, so that kernels can tell the rerun process, which has none. */
static inline void start(const char *options)
{
    char all[256];
    snprintf(all, sizeof all, "wait_ms=1000/60000,%s", options);
    setenv("CUFENCE_OPTIONS", all, 1);
    CHECK_OK(cufence_init(NULL));
    use_device(0);
    CHECK_CU(cuModuleLoadData(&module, "any"));
}

static inline void *allocate(size_t size)
{
    void *pointer = NULL;
    CHECK_OK(cufence_malloc(&pointer, size, 0, NULL));
    CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)pointer, 0, size));
    CHECK_CU(cuCtxSynchronize());
    return pointer;
}

/* As the preload library does. shared: bytes of dynamic shared memory. */
static inline CUfunction record_launch(const char *kernel, void **arguments, unsigned shared)
{
    CUfunction function;
    CHECK_CU(cuModuleGetFunction(&function, module, kernel));
    const struct launch_call call = {
        .function = function, .grid = {blocks, 1, 1}, .block = {128, 1, 1}, .shared_bytes = shared, .parameters = arguments};
    launch_record(context_current(), &call);
    return function;
}

static inline void launch_shared(const char *kernel, void **arguments, unsigned shared)
{
    CUfunction function = record_launch(kernel, arguments, shared);
    if (shared)
        CHECK_CU(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared));
    CHECK_CU(cuLaunchKernel(function, blocks, 1, 1, 128, 1, 1, shared, NULL, arguments, NULL));
}

static inline void launch_all(const char *kernel, void **arguments)
{
    launch_shared(kernel, arguments, 0);
}

static inline void launch(const char *kernel, void *pointer, int n)
{
    launch_all(kernel, (void *[]){&pointer, &n});
}

/* Allocates COUNT numbers, launches the kernel with them, and waits for its fault. */
static inline void fault_in(const char *kernel, const char *options)
{
    start(options);
    launch(kernel, allocate(COUNT * 4), COUNT);
    cuCtxSynchronize();
}

/* What is said if the second launch finds it: the thread behind the last number of buffer #1. */
#define PAST_THE_END "0 bytes past the end of buffer #1"
#define THREAD_PAST_THE_END "thread \\(104,0,0\\)"
#define WRITTEN_PAST_THE_END "written +4 bytes past the end: 2\\.5"

struct hosted {
    void *out;
    int n;
};

/* As the preload library notes it. */
static inline struct hosted *pin(size_t size)
{
    void *memory = NULL;
    CHECK_CU(cuMemHostAlloc(&memory, size, CU_MEMHOSTALLOC_DEVICEMAP));
    pinned_add(context_current(), (uint64_t)(uintptr_t)memory, size, PINNED_HOST);
    *(struct hosted *)memory = (struct hosted){.n = COUNT};
    return memory;
}

/* Fails unless the story ends with status 86 and says what the patterns (unfold.h) demand. */
static inline void expect_said(void (*story)(void), const char *const *patterns)
{
    struct outcome outcome = run_child(story);
    const char *wrong = wrong_pattern(outcome.err, patterns);
    int is_ok = outcome.status == 86 && !wrong;
    if (!is_ok)
        fprintf(stderr, "the child ended with status %d and said, but for \"%s\":\n%s\n", outcome.status, wrong ? wrong : "",
                outcome.err);
    free(outcome.err);
    assert_true(is_ok);
}

/* A case that is such a story: TELLS(name, pattern...) {...} */
#define TELLS(name, ...) TELLS_AFTER((void)0, name, __VA_ARGS__)
#define TELLS_AFTER(first, name, ...)                                                                                          \
    static void tell_##name(void);                                                                                             \
    TEST(test_##name)                                                                                                          \
    {                                                                                                                          \
        first;                                                                                                                 \
        expect_said(tell_##name, PATTERNS(__VA_ARGS__));                                                                       \
    }                                                                                                                          \
    static void tell_##name(void)

/* ... of one kernel, launched as fault_in() does. */
#define FAULT_TELLS(name, kernel, options, ...)                                                                                \
    TELLS(name, __VA_ARGS__)                                                                                                   \
    {                                                                                                                          \
        fault_in(kernel, options);                                                                                             \
    }

/* ... with memory of the host. */
#define HOST_TELLS(name, ...) TELLS_AFTER(SKIP_WITHOUT_HOST_MEMORY, name, __VA_ARGS__)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_WITHOUT_HOST_MEMORY skip() /* the other process has its own memory where the host memory was */
#else
#define SKIP_WITHOUT_HOST_MEMORY ((void)0)
#endif
