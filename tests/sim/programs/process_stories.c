/* Stories about processes, contexts, and finding functions. */
#include "program.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int use_memory(uint32_t value)
{
    CUdeviceptr address;
    uint32_t word = 0;
    start();
    MUST(cu.cuMemAlloc(&address, 4096));
    MUST(cu.cuMemsetD32(address, value, 1024));
    MUST(cu.cuMemcpyDtoH(&word, address + 4092, 4));
    MUST(cu.cuMemFree(address));
    return word == value ? 0 : 1;
}

/* A fork before cuInit: both processes use CUDA afterwards. */
STORY(fork_first)
{
    int status = -1;
    driver_find();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _Exit(use_memory(11));
    int own = use_memory(12);
    waitpid(child, &status, 0);
    printf("parent %d child %d\n", own, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}

static int count_threads(void)
{
    struct stat tasks = {0};
    stat("/proc/self/task", &tasks);
    return (int)tasks.st_nlink - 2;
}

/* A process that takes no interest in CUDA, and its child. */
STORY(untouched)
{
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _Exit(count_threads());
    waitpid(child, &status, 0);
    printf("libcufence.so %s, threads %d, of the child %d\n", is_guarded() ? "yes" : "no", count_threads(),
           WEXITSTATUS(status));
    return 0;
}

/* cuGetProcAddress that is asked for itself gives out the same functions. */
STORY(itself)
{
    void *first = NULL, *again = NULL, *function = NULL, *other = NULL;
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUresult (*get_v1)(const char *, void **, int, cuuint64_t);
    driver_find();
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&get = dlsym(library, "cuGetProcAddress_v2");
    *(void **)&get_v1 = dlsym(library, "cuGetProcAddress");
    MUST(get("cuGetProcAddress", &first, 12000, 0, NULL));
    printf("v2 gives itself: %s\n", first == (void *)get ? "yes" : "no");
    *(void **)&get = first;
    MUST(get("cuGetProcAddress", &again, 12000, 0, NULL));
    MUST(get("cuMemAlloc", &function, 12080, 0, NULL));
    printf("v2 by v2 gives itself: %s, cuMemAlloc as by dlsym: %s\n", again == first ? "yes" : "no",
           function == dlsym(library, "cuMemAlloc_v2") ? "yes" : "no");
    MUST(get_v1("cuMemAlloc", &other, 12080, 0));
    printf("cuMemAlloc of v1 and v2 is one: %s\n", other == function ? "yes" : "no");
    MUST(get("cuCtxSynchronize", &first, 12080, 0, NULL));
    MUST(get("cuCtxSynchronize", &again, 13000, 0, NULL));
    printf("cuCtxSynchronize has two forms: %s\n", first != again ? "yes" : "no");
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    say("a function that is not there", get("cuNoSuchThing", &other, 12080, 0, &status));
    printf("found %s, status %d\n", other == NULL ? "nothing" : "something", (int)status);
    say("the same without a status", get("cuNoSuchThing", &other, 12080, 0, NULL));
    say("a version of tomorrow", get("cuMemAlloc", &other, 99000, 0, &status));
    return 0;
}

/* next_symbol LIBRARY: dlsym(RTLD_NEXT) in a library that has nothing to do with CUDA, libraries.c. */
STORY(next_symbol)
{
    if (count < 3)
        return 4;
    int (*outer)(void);
    void *library = dlopen(arguments[2], RTLD_NOW | RTLD_GLOBAL);
    *(void **)&outer = library != NULL ? dlsym(RTLD_DEFAULT, "next_answer") : NULL;
    printf("outer answers %d\n", outer != NULL ? outer() : -1);
    printf("missing symbol: %s\n", dlsym(RTLD_DEFAULT, "next_of_nothing") == NULL ? "none" : "one");
    printf("missing driver function: %s\n", dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuNoSuchThing") == NULL ? "none" : "one");
    return 0;
}

/* A second driver, which knows nothing of the first one's cuInit(). */
STORY(other_namespace)
{
    int devices;
    void *library = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    driver_find();
    MUST(((__typeof__(&cuInit))dlsym(library, "cuInit"))(0));
    return (int)say("there", ((__typeof__(&cuDeviceGetCount))dlsym(library, "cuDeviceGetCount"))(&devices));
}

/* own_copy LIBRARY: the program has brought another libcufence.so, and calls it. */
STORY(own_copy)
{
    void *copy = dlopen(arguments[2], RTLD_NOW | RTLD_GLOBAL), *pointer;
    start();
    return ((__typeof__(&cufence_malloc))dlsym(copy, "cufence_malloc"))(&pointer, 64, 0, NULL);
}

static void say_goodbye(void)
{
    puts("the program's own");
}

/* exit_handlers LIBRARY: both have something to do at the exit. */
STORY(exit_handlers)
{
    start();
    atexit(say_goodbye);
    if (count < 3 || dlopen(arguments[2], RTLD_NOW) == NULL)
        return 2;
    puts("loaded");
    return 0;
}

/* ---- contexts: hundreds of them, and a fault that only the end of the process meets ---- */

#define BYTES 4096

STORY(many_contexts)
{
    enum { MOST = 1000 };
    static CUcontext contexts[MOST];
    static CUdeviceptr buffers[MOST];
    int wanted = count > 2 ? atoi(arguments[2]) : 1, refused = 0, wrong = 0;
    start();
    for (int i = 0; i < wanted && i < MOST; i++) {
        MUST(cu.cuCtxCreate(&contexts[i], NULL, 0, 0));
        refused += cu.cuMemAlloc(&buffers[i], 64) != CUDA_SUCCESS;
        MUST(cu.cuCtxSetCurrent(NULL)); /* off the thread's stack, which has an end */
    }
    for (int i = 0; i < wanted && i < MOST; i++) {
        CUcontext owner = NULL;
        MUST(cu.cuCtxSetCurrent(contexts[i]));
        wrong +=
            cu.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, buffers[i]) != CUDA_SUCCESS || owner != contexts[i];
        if (i % 2) /* the other half goes with its context */
            refused += cu.cuMemFree(buffers[i]) != CUDA_SUCCESS;
        MUST(cu.cuCtxDestroy(contexts[i]));
    }
    printf("refused %d, of another context %d\n", refused, wrong);
    return 0;
}

static void *end_the_process(void *unused)
{
    exit(0);
}

/* Two devices, on both of which a kernel faults; the program never asks, and ends from another thread than the first one: its
 * devices are waited for once then. */
STORY(silent_fault)
{
    CUdeviceptr buffer;
    start();
    for (int device = 0; device < 2; device++) {
        use_device(device);
        MUST(cu.cuMemAlloc(&buffer, BYTES));
        MUST(store(buffer + BYTES, 1, NULL));
    }
    pthread_t thread;
    pthread_create(&thread, NULL, end_the_process, NULL);
    pthread_join(thread, NULL);
    return 1;
}

/* A kernel faults, and several threads end the process at the same time. */
STORY(many_ends)
{
    CUdeviceptr buffer;
    pthread_t thread;
    start();
    MUST(cu.cuMemAlloc(&buffer, BYTES));
    MUST(store(buffer + BYTES, 1, NULL));
    for (int i = 0; i < 4; i++) {
        pthread_create(&thread, NULL, end_the_process, NULL);
        usleep(5000);
    }
    pause();
    return 1;
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

static struct {
    CUcontext context;
    CUstream stream;
    CUevent event;
    CUdeviceptr copied, freed;
} awaited;

static void *wait_for_stream(void *unused)
{
    MUST(cu.cuCtxSetCurrent(awaited.context));
    cu.cuStreamSynchronize(awaited.stream);
    return unused;
}

static void *wait_for_event(void *unused)
{
    MUST(cu.cuCtxSetCurrent(awaited.context));
    cu.cuEventSynchronize(awaited.event);
    return unused;
}

static void *wait_for_copy(void *unused)
{
    uint32_t word;
    MUST(cu.cuCtxSetCurrent(awaited.context));
    cu.cuMemcpyDtoH(&word, awaited.copied, sizeof word);
    return unused;
}

static void *wait_to_free(void *unused)
{
    MUST(cu.cuCtxSetCurrent(awaited.context));
    cu.cuMemFree(awaited.freed);
    return unused;
}

static void let_threads_wait(CUstream stream)
{
    static void *(*const ways[])(void *) = {wait_for_stream, wait_for_event, wait_for_copy, wait_to_free};
    pthread_t thread;
    awaited.stream = stream;
    MUST(cu.cuDevicePrimaryCtxRetain(&awaited.context, 0));
    MUST(cu.cuMemAlloc(&awaited.copied, BYTES));
    MUST(cu.cuMemAlloc(&awaited.freed, BYTES));
    MUST(cu.cuEventCreate(&awaited.event, 0));
    MUST(cu.cuEventRecord(awaited.event, stream));
    for (size_t i = 0; i < 10; i++) {
        if (i == 4)
            usleep(200000); /* the others wait less long */
        pthread_create(&thread, NULL, ways[i < 4 ? i : 0], NULL);
        pthread_detach(thread);
    }
}

static void take_a_while(void *ms)
{
    usleep(1000 * (useconds_t)(uintptr_t)ms);
}

/* A kernel waits for the host, which takes so many milliseconds; idle: no kernel does; capture: and a stream captures; stream:
 * threads wait for it; queue: three more are queued, and each takes so long; host: so do four functions of the host. */
STORY(hang)
{
    static uint32_t flags[4]; /* the kernels may look at them after the end */
    CUgraph graph;
    const char *where = count > 3 ? arguments[2] : "";
    start();
    CUstream stream = NULL;
    if (*where)
        MUST(cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    if (*where == 'c')
        MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    int kernels = *where == 'q' ? 4 : !*where || *where == 's';
    for (int i = 0; i < kernels; i++)
        spin(&flags[i], stream);
    if (*where == 's')
        let_threads_wait(stream);
    for (int i = 0; i < 4 && *where == 'h'; i++)
        MUST(cu.cuLaunchHostFunc(stream, take_a_while, (void *)(uintptr_t)atoi(arguments[count - 1])));
    for (int i = 0; (i < kernels || !i) && *where != 'h'; i++) {
        usleep(1000 * (useconds_t)atoi(arguments[count - 1]));
        let_go(&flags[i]);
    }
    if (*where == 'c')
        MUST(cu.cuStreamEndCapture(stream, &graph));
    return say("waited", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
