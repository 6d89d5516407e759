/* A program that knows nothing of cufence: a kernel of 33 threads fills a buffer for 32 floats. It looks at no error. Or, with
 * an argument: "clean": a kernel of 32; "init": only cuInit; "leave": as clean, and ends by _exit; "killed": as clean, and
 * kills itself; "managed": only memory that cufence leaves to the driver; "forget": without CUFENCE_TALLY from here on, itself
 * as clean in a child; "print": as clean, and prints without a line end; "quick": as clean, and ends by quick_exit(3); "timer":
 * as clean, with a timer that runs on; "stay": as clean, and cannot execute another program;
 * "close": closes what it has inherited, and is itself without an argument in a child. */
#include "plain_program.h"

#include <signal.h>
#include <sys/time.h>

static void fill(const cusim_thread *thread, void *const *arguments)
{
    volatile float *out = *(volatile float *const *)arguments[0];
    out[thread->thread_index[0]] = 1.0f;
}

__attribute__((noinline)) static void overrun(unsigned threads)
{
    CUfunction function;
    CUdeviceptr buffer = 0;
    CALL(cuModuleGetFunction, &function, module, "fill");
    CALL(cuMemAlloc_v2, &buffer, 32 * sizeof(float));
    CALL(cuLaunchKernel, function, 1, 1, 1, threads, 1, 1, 0, NULL, (void *[]){&buffer}, NULL);
}

static void allocate_managed(void)
{
    CUdeviceptr managed;
    CALL(cuMemAllocManaged, &managed, 4096, CU_MEM_ATTACH_GLOBAL);
}

static void ring(int signal)
{
    (void)signal;
}

static void start_timer(void)
{
    const struct itimerval often = {{0, 5000}, {0, 5000}};
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = ring, .sa_flags = SA_RESTART}, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {sizeof(uint64_t)};
    const char *story = argc > 1 ? argv[1] : "";
    if (!open_driver())
        return 2;
    if (!strcmp(story, "forget"))
        return unsetenv("CUFENCE_TALLY") || system("\"$STORY\" clean");
    for (int fd = 3; !strcmp(story, "close") && fd < 1024; fd++)
        close(fd);
    if (!strcmp(story, "close"))
        return system("\"$STORY\"") == 0;
    CALL(cuInit, 0);
    if (!strcmp(story, "init"))
        return 0;
    register_kernels(&(cusim_kernel){"fill", fill, sizes, 1, "model.cu", 12, 4, 0, 0}, 1);
    open_device();
    if (!strcmp(story, "managed"))
        allocate_managed();
    else
        overrun(*story ? 32 : 33);
    if (!strcmp(story, "leave"))
        _exit(0);
    if (!strcmp(story, "killed"))
        raise(SIGKILL);
    if (!strcmp(story, "timer"))
        start_timer();
    if (!strcmp(story, "stay"))
        execl("/nowhere", "nowhere", NULL);
    if (!strcmp(story, "quick"))
        quick_exit(3);
    if (!strcmp(story, "print"))
        printf("printed");
    return 0;
}
