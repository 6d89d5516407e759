/* Stories about threads and fibres with little stack, and about threads that are cancelled. */
#include "program.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define FIBRE_BYTES (64u << 10)
#define PAINT 0xa5
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define MOST_BYTES FIBRE_BYTES /* frames are larger then */
#else
#define MOST_BYTES (8u << 10)
#endif
#define ROUNDS 200

static CUcontext context;
static CUstream stream;
static CUdeviceptr kept, last;
static unsigned char host[8000];

/* ---- what is done there ---- */

static CUresult begin(void)
{
    start();
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    stream = new_stream();
    return CUDA_SUCCESS;
}

static CUresult allocate(void)
{
    return cu.cuMemAlloc(&last, 1000);
}

static CUresult release(void)
{
    return cu.cuMemFree(last);
}

static CUresult allocate_and_free_in_order(void)
{
    CUdeviceptr address;
    for (int i = 0; i < 300; i++) {
        MUST(cu.cuMemAllocAsync(&address, 1000, stream));
        MUST(cu.cuMemFreeAsync(address, stream));
    }
    return cu.cuStreamSynchronize(stream);
}

static CUresult launch(void)
{
    MUST(store(kept, 1, stream));
    return cu.cuStreamSynchronize(stream);
}

static CUresult copy(void)
{
    MUST(cu.cuMemcpyHtoD(kept, host, 1000));
    return cu.cuMemcpyDtoH(host, kept, 1000);
}

static CUresult capture(void)
{
    CUgraph graph;
    CUgraphExec executable;
    CUdeviceptr address;
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.cuMemAllocAsync(&address, 1000, stream));
    MUST(cu.cuMemFreeAsync(address, stream));
    MUST(cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cu.cuGraphLaunch(executable, stream));
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuGraphExecDestroy(executable));
    return cu.cuGraphDestroy(graph);
}

static CUresult other_context(void)
{
    CUcontext other;
    CUdeviceptr address;
    MUST(cu.cuCtxCreate(&other, NULL, 0, 0));
    MUST(cu.cuMemAlloc(&address, 5000));
    MUST(cu.cuCtxDestroy(other));
    return cu.cuCtxSetCurrent(context);
}

static CUresult free_twice(void)
{
    CUdeviceptr address;
    MUST(cu.cuMemAlloc(&address, 1000));
    MUST(cu.cuMemFree(address));
    return cu.cuMemFree(address);
}

static CUresult copy_too_much(void)
{
    return cu.cuMemcpyDtoH(host, kept, sizeof host);
}

static CUresult allocate_too_much(void)
{
    return cu.cuMemAlloc(&last, (size_t)1 << 40);
}

static const struct step {
    const char *name;
    CUresult (*run)(void);
    int is_misuse, waits; /* it is one; the driver itself waits in it, and may be a cancellation point */
} steps[] = {
    {"the first allocation", allocate, 0, 0},
    {"a free", release, 0, 0},
    {"allocations and frees in order", allocate_and_free_in_order, 0, 1},
    {"a launch", launch, 0, 1},
    {"copies", copy, 0, 1},
    {"a capture", capture, 0, 1},
    {"another context", other_context, 0, 1},
    {"too large an allocation", allocate_too_much, 0, 0},
    {"a double free", free_twice, 1, 0},
    {"a copy out of bounds", copy_too_much, 1, 0},
};
#define STEPS (sizeof steps / sizeof steps[0])

/* Without cufence, a misuse may be whatever the driver makes of it: it is left out. */
static int is_left_out(const struct step *step)
{
    return step->is_misuse && !is_guarded();
}

/* ---- fibres ---- */

static ucontext_t main_fibre, fibre;
static CUresult (*on_fibre)(void);
static CUresult answer;

static void run_step(void)
{
    answer = on_fibre();
}

/* Runs on a stack of its own with a guard page below. Returns how many bytes of it were written to. */
static size_t depth_of(CUresult (*run)(void))
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *low = mmap(NULL, page + FIBRE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (low == MAP_FAILED || mprotect(low, page, PROT_NONE) != 0)
        return 0;
    memset(low + page, PAINT, FIBRE_BYTES);
    on_fibre = run;
    getcontext(&fibre);
    fibre.uc_stack.ss_sp = low + page;
    fibre.uc_stack.ss_size = FIBRE_BYTES;
    fibre.uc_link = &main_fibre;
    makecontext(&fibre, run_step, 0);
    swapcontext(&main_fibre, &fibre);
    size_t untouched = 0;
    while (untouched < FIBRE_BYTES && low[page + untouched] == PAINT)
        untouched++;
    munmap(low, page + FIBRE_BYTES);
    return FIBRE_BYTES - untouched;
}

static void tell_depth(const char *name, size_t depth)
{
    say(name, answer);
    if (depth > MOST_BYTES || getenv("TELL_DEPTH"))
        printf("%s: %zu bytes of stack\n", name, depth);
}

/* The start may open libcufence.so, in the loader's own frames. */
STORY(fibres)
{
    driver_find();
    tell_depth("the start", depth_of(begin));
    MUST(cu.cuMemAlloc(&kept, 4000));
    for (size_t i = 0; i < STEPS; i++)
        if (!is_left_out(&steps[i]))
            tell_depth(steps[i].name, depth_of(steps[i].run));
    return 0;
}

/* ---- threads ---- */

static void *run_step_on_thread(void *step)
{
    MUST(cu.cuCtxSetCurrent(context));
    answer = ((const struct step *)step)->run();
    return NULL;
}

static void *end_on_thread(void *unused)
{
    exit(0);
}

/* With "exit", such a thread ends the process, with a buffer still allocated. */
STORY(small_threads)
{
    pthread_attr_t attributes;
    pthread_t thread;
    begin();
    MUST(cu.cuMemAlloc(&kept, 4000));
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
    for (size_t i = 0; i < STEPS; i++) {
        if (is_left_out(&steps[i]))
            continue;
        if (pthread_create(&thread, &attributes, run_step_on_thread, (void *)(uintptr_t)&steps[i]) != 0)
            return 1;
        pthread_join(thread, NULL);
        say(steps[i].name, answer);
    }
    if (count < 3 || strcmp(arguments[2], "exit") != 0 || pthread_create(&thread, &attributes, end_on_thread, NULL) != 0)
        return 0;
    for (;;)
        pause();
}

/* ---- threads that are cancelled ---- */

/* The request is there before the step, so that the first cancellation point ends the thread. */
static void *run_cancelled_step(void *step)
{
    MUST(cu.cuCtxSetCurrent(context));
    pthread_cancel(pthread_self());
    answer = ((const struct step *)step)->run();
    say(((const struct step *)step)->name, answer);
    pthread_testcancel();
    return NULL;
}

static int is_inside; /* atomic: the thread is in a function of the driver */

static void *run_until_cancelled(void *unused)
{
    CUdeviceptr address;
    MUST(cu.cuCtxSetCurrent(context));
    for (;;) {
        __atomic_store_n(&is_inside, 1, __ATOMIC_RELAXED);
        MUST(cu.cuMemAllocAsync(&address, 1000, stream));
        MUST(cu.cuMemFreeAsync(address, stream));
        if (is_guarded()) {
            cu.cuMemFreeAsync(address, stream);
            MUST(cu.cuMemAlloc(&address, 3000000));
            MUST(cu.cuMemFree(address));
        }
        __atomic_store_n(&is_inside, 0, __ATOMIC_RELAXED);
        pthread_testcancel();
    }
    return unused;
}

static int count_cancelled_inside(void)
{
    unsigned seed = 1;
    int inside = 0;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, run_until_cancelled, NULL);
        for (int spins = rand_r(&seed) % 20000; spins > 0; spins--)
            __asm__ volatile("" ::: "memory");
        pthread_cancel(thread);
        pthread_join(thread, NULL);
        inside += __atomic_load_n(&is_inside, __ATOMIC_RELAXED);
    }
    return inside;
}

/* Standard error is a pipe without room: who prints has to wait. Returns the end to read from. */
static int fill_standard_error(void)
{
    static const char junk[4096];
    int ends[2];
    if (pipe(ends) != 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0)
        return -1;
    while (write(ends[1], junk, sizeof junk) > 0 || write(ends[1], junk, 1) > 0)
        ;
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    return ends[0];
}

static void *empty(void *pipe_end)
{
    char some[4096];
    while (read((int)(intptr_t)pipe_end, some, sizeof some) > 0)
        ;
    return NULL;
}

/* With "full", the reports wait for a reader. */
STORY(cancelled)
{
    pthread_t thread, reader;
    void *result;
    begin();
    MUST(cu.cuMemAlloc(&kept, 4000));
    int is_full = count > 2 && !strcmp(arguments[2], "full"), own = is_full ? dup(STDERR_FILENO) : -1;
    int pipe_end = is_full ? fill_standard_error() : -1;
    if (is_full)
        pthread_create(&reader, NULL, empty, (void *)(intptr_t)pipe_end);
    for (size_t i = 0; i < STEPS; i++) {
        if (is_left_out(&steps[i]) || steps[i].waits)
            continue;
        pthread_create(&thread, NULL, run_cancelled_step, (void *)(uintptr_t)&steps[i]);
        pthread_join(thread, &result);
        if (result != PTHREAD_CANCELED)
            printf("%s: not cancelled\n", steps[i].name);
    }
    if (is_full) {
        dup2(own, STDERR_FILENO);
        pthread_join(reader, NULL);
    }
    printf("%d of %d were cancelled in the driver\n", count_cancelled_inside(), ROUNDS);
    MUST(cu.cuMemFree(kept));
    return 0;
}

/* ---- an end in a signal handler ---- */

static void end_in_handler(int signal)
{
    abort();
}

static void *load(void *path)
{
    return dlopen(path, RTLD_NOW);
}

/* Another thread has the loader's lock. arguments: a library whose constructor does not return. */
STORY(abort_in_handler)
{
    char text[16], byte;
    int ends[2];
    pthread_t thread;
    start();
    if (count < 3 || pipe(ends) != 0)
        return 1;
    snprintf(text, sizeof text, "%d", ends[1]);
    setenv("BLOCKING", text, 1);
    pthread_create(&thread, NULL, load, arguments[2]);
    if (read(ends[0], &byte, 1) != 1)
        return 1;
    alarm(20);
    signal(SIGUSR1, end_in_handler);
    raise(SIGUSR1);
    return 0;
}
