/* demo.cu compiled for the simulated device, which asks each program for the kernels that it has. */
#include "demo_bugs.h"

#include "sim/sim.h"

#include <math.h>

/* What the words of CUDA mean there. A kernel is called once for each of its threads. */
static _Thread_local const cusim_thread *running;
struct index {
    int x;
};
#define __global__ static
#define blockIdx ((struct index){(int)running->block_index[0]})
#define blockDim ((struct index){(int)running->block[0]})
#define threadIdx ((struct index){(int)running->thread_index[0]})
#include "demo.cu"

#define ARGUMENT(type, index) (*(type *)arguments[index])
#define KERNEL(name, ...)                                                                                                      \
    static void play_##name(const cusim_thread *thread, void *const *arguments)                                                \
    {                                                                                                                          \
        running = thread;                                                                                                      \
        demo_##name(__VA_ARGS__);                                                                                              \
    }

/* A radius of 1: what keeps a GPU's warp busy behind the fault would only take time. */
KERNEL(overrun, ARGUMENT(const int *, 0), ARGUMENT(int *, 1), ARGUMENT(float *, 2), ARGUMENT(int, 3), 1)
KERNEL(underrun, ARGUMENT(const float *, 0), ARGUMENT(float *, 1), ARGUMENT(int, 2))
KERNEL(use_after_free, ARGUMENT(const float *, 0), ARGUMENT(const int *, 1), ARGUMENT(float *, 2), ARGUMENT(int, 3))
KERNEL(slack_write, ARGUMENT(const char *, 0), ARGUMENT(char *, 1), ARGUMENT(int, 2))
KERNEL(stream_race, ARGUMENT(const float *, 0), ARGUMENT(float *, 1), ARGUMENT(int, 2))
KERNEL(first_nan, ARGUMENT(const float *, 0), ARGUMENT(float *, 1), ARGUMENT(int, 2))

/* Lines of the faults, marked "planted" in demo.cu; tests/sim/test_demo.c compares them. */
static const size_t overrun_arguments[] = {8, 8, 8, 4, 4}, three_arguments[] = {8, 8, 4}, table_arguments[] = {8, 8, 8, 4};
static const cusim_kernel kernels[] = {
    {"_Z12demo_overrunPKiPiPfii", play_overrun, overrun_arguments, 5, "demo.cu", 16, 4, 0, 0},
    {"_Z13demo_underrunPKfPfi", play_underrun, three_arguments, 3, "demo.cu", 30, 4, 0, 0},
    {"_Z19demo_use_after_freePKfPKiPfi", play_use_after_free, table_arguments, 4, "demo.cu", 40, 4, 0, 0},
    {"_Z16demo_slack_writePKcPci", play_slack_write, three_arguments, 3, "demo.cu", 50, 1, 0, 0},
    {"_Z16demo_stream_racePKfPfi", play_stream_race, three_arguments, 3, "demo.cu", 0, 4, 0, 0},
    {"_Z14demo_first_nanPKfPfi", play_first_nan, three_arguments, 3, "demo.cu", 0, 4, 0, 0},
};

/* Called by the simulated driver's cuInit(): also in the process that launches a kernel again, which is this program too. */
PLANTED void cusim_program_kernels(void (*add)(const cusim_kernel *kernel));
PLANTED void cusim_program_kernels(void (*add)(const cusim_kernel *kernel))
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        add(&kernels[i]);
}
