/* Stories about fibres with little stack, and an end in a signal handler. */
#include "program.h"

#include <errno.h>
#include <dlfcn.h>
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
    int is_misuse;
} steps[] = {
    {"the first allocation", allocate, 0},
    {"a free", release, 0},
    {"allocations and frees in order", allocate_and_free_in_order, 0},
    {"a launch", launch, 0},
    {"copies", copy, 0},
    {"a capture", capture, 0},
    {"another context", other_context, 0},
    {"too large an allocation", allocate_too_much, 0},
    {"a double free", free_twice, 1},
    {"a copy out of bounds", copy_too_much, 1},
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
    errno = 1000;
    answer = on_fibre();
    if (errno != 1000)
        printf("errno %d\n", errno);
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
