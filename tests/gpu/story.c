#include "story.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 128, DEADLINE_SECONDS = 60, BROKEN = 99, SKIPPED = 77 };

struct witness *witness;

static CUmodule kernels; /* owned by the child, loaded at its first launch */

uint64_t story_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

void story_sleep_ms(unsigned ms)
{
    const struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

void story_check(int condition, const char *format, ...)
{
    if (condition)
        return;
    va_list arguments;
    va_start(arguments, format);
    fputs("story: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, " (%s)\n", cufence_error_detail());
    _exit(BROKEN);
}

void story_ok(CUresult result, const char *call)
{
    story_check(driver_check(result, call) == CUFENCE_OK, "%s", call);
}

void *story_symbol(const char *name)
{
    void *symbol = dlsym(driver->library, name);
    story_check(symbol != NULL, "the driver has no %s", name);
    return symbol;
}

CUstream story_stream(void)
{
    CUstream stream;
    story_ok(driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
}

void *story_buffer(const char *label, size_t size, CUstream stream)
{
    void *pointer = NULL;
    cufence_label_push(label);
    story_check(cufence_malloc(&pointer, size, 0, stream) == CUFENCE_OK, "cufence_malloc of %zu bytes", size);
    cufence_label_pop();
    story_ok(driver->cuMemsetD8Async((CUdeviceptr)(uintptr_t)pointer, 0, size, stream), "cuMemsetD8Async");
    return pointer;
}

CUresult story_launch(const char *kernel, unsigned blocks, CUstream stream, void **arguments)
{
    CUfunction function;
    if (!kernels)
        story_ok(driver->cuModuleLoadData(&kernels, kernels_image()), "cuModuleLoadData");
    story_ok(driver->cuModuleGetFunction(&function, kernels, kernel), kernel);
    witness->launched_ns = story_now();
    return driver->cuLaunchKernel(function, blocks, 1, 1, BLOCK, 1, 1, 0, stream, arguments, NULL);
}

int story_wait_report(unsigned seconds)
{
    for (unsigned waited = 0; waited < seconds * 1000; waited++) {
        if (__atomic_load_n(&witness->faults, __ATOMIC_ACQUIRE))
            return 1;
        story_sleep_ms(1);
    }
    return 0;
}

static void on_fault(const cufence_fault *fault, void *user)
{
    (void)fault;
    (void)user;
    if (witness->faults == 0)
        witness->reported_ns = story_now();
    __atomic_fetch_add(&witness->faults, 1, __ATOMIC_RELEASE);
}

static void child(const char *options, int (*tell)(void), int output)
{
    CUdevice device;
    CUcontext context;
    dup2(output, STDERR_FILENO);
    alarm(DEADLINE_SECONDS);
    setenv("CUDA_MODULE_LOADING", "EAGER", 1); /* a kernel loaded at its first launch would wait for running kernels */
    if (options) {
        cufence_set_fault_handler(on_fault, NULL);
        story_check(cufence_init(options) == CUFENCE_OK, "cufence_init(\"%s\")", options);
    } else {
        story_check(driver_load() == CUFENCE_OK, "driver_load");
    }
    story_ok(driver->cuDeviceGet(&device, 0), "cuDeviceGet");
    story_ok(driver->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    story_ok(driver->cuCtxSetCurrent(context), "cuCtxSetCurrent");
    exit(tell());
}

const struct story *story_run(const char *options, int (*tell)(void))
{
    static struct story story;
    if (!witness)
        witness = mmap(NULL, sizeof *witness, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *output = tmpfile();
    if (witness == MAP_FAILED || !output)
        abort();
    memset(witness, 0, sizeof *witness);
    memset(&story, 0, sizeof story);
    story.witness = witness;
    fflush(NULL); /* otherwise the child's exit() writes the parent's buffered text again */
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0)
        child(options, tell, fileno(output));
    int status = 0;
    waitpid(pid, &status, 0);
    story.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    story.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    rewind(output);
    story.stderr_text[fread(story.stderr_text, 1, sizeof story.stderr_text - 1, output)] = '\0';
    fclose(output);
    return &story;
}

const char *story_impossible(void)
{
    if (!kernels_image())
        return "built without nvcc, so there are no kernels";
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return "fork failed";
    if (pid == 0) {
        int count = 0;
        _exit(driver_load() != CUFENCE_OK                                     ? 1
              : driver->is_sim                                                ? 2
              : driver->cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 0 ? 0
                                                                              : 3);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status))
        return "the CUDA driver crashed";
    static const char *const reasons[] = {NULL, "no CUDA driver here", "CUFENCE_DRIVER names the simulated device",
                                          "no GPU here"};
    return reasons[WEXITSTATUS(status) & 3];
}

void story_require_gpu(void)
{
    const char *reason = story_impossible();
    if (!reason)
        return;
    printf("skipped: %s\n", reason);
    exit(SKIPPED);
}
