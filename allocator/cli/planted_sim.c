/* The kernels of demo.cu for the simulated device, which asks each program for those that it has. */
#include "planted.h"

#include "sim/sim.h"

static uint32_t thread_number(const cusim_thread *thread)
{
    return thread->block_index[0] * thread->block[0] + thread->thread_index[0];
}

/* Argument `index` of the launch. */
#define ARGUMENT(type, index) (*(type *)arguments[index])

static void overrun(const cusim_thread *thread, void *const *arguments)
{
    const int *lengths = ARGUMENT(const int *, 0);
    int *offsets = ARGUMENT(int *, 1), rows = ARGUMENT(int, 3);
    float *blurred = ARGUMENT(float *, 2);
    int row = (int)thread_number(thread), end = 0;
    if (row >= rows)
        return;
    for (int i = 0; i <= row; i++)
        end += lengths[i];
    offsets[row + 1] = end;
    blurred[row] = (float)lengths[row];
}

static void underrun(const cusim_thread *thread, void *const *arguments)
{
    const float *samples = ARGUMENT(const float *, 0);
    float *smooth = ARGUMENT(float *, 1);
    int count = ARGUMENT(int, 2), i = (int)thread_number(thread);
    if (i >= count)
        return;
    float left = samples[i - 1];
    float right = i + 1 < count ? samples[i + 1] : samples[i];
    smooth[i] = (left + samples[i] + right) / 3.0f;
}

static void use_after_free(const cusim_thread *thread, void *const *arguments)
{
    const float *table = ARGUMENT(const float *, 0);
    const int *keys = ARGUMENT(const int *, 1);
    float *values = ARGUMENT(float *, 2);
    int count = ARGUMENT(int, 3), i = (int)thread_number(thread);
    if (i < count)
        values[i] = table[keys[i]];
}

static void slack_write(const cusim_thread *thread, void *const *arguments)
{
    const char *text = ARGUMENT(const char *, 0);
    char *copy = ARGUMENT(char *, 1);
    int length = ARGUMENT(int, 2), i = (int)thread_number(thread);
    if (i < length)
        copy[i] = text[i];
    else if (i == length)
        copy[i] = '\0';
}

static void stream_race(const cusim_thread *thread, void *const *arguments)
{
    const float *samples = ARGUMENT(const float *, 0);
    float *squares = ARGUMENT(float *, 1);
    int count = ARGUMENT(int, 2), i = (int)thread_number(thread);
    if (i < count)
        squares[i] = samples[i] * samples[i];
}

static void first_nan(const cusim_thread *thread, void *const *arguments)
{
    const float *samples = ARGUMENT(const float *, 0);
    float *signs = ARGUMENT(float *, 1);
    int count = ARGUMENT(int, 2), i = (int)thread_number(thread);
    if (i < count)
        signs[i] = samples[i] / (samples[i] < 0 ? -samples[i] : samples[i]);
}

/* Lines of the faults, marked "planted" in demo.cu; tests/sim/test_demo.c compares them. */
static const size_t overrun_arguments[] = {8, 8, 8, 4, 4}, three_arguments[] = {8, 8, 4}, table_arguments[] = {8, 8, 8, 4};
static const cusim_kernel kernels[] = {
    {"_Z12demo_overrunPKiPiPfii", overrun, overrun_arguments, 5, "demo.cu", 16, 4, 0, 0},
    {"_Z13demo_underrunPKfPfi", underrun, three_arguments, 3, "demo.cu", 30, 4, 0, 0},
    {"_Z19demo_use_after_freePKfPKiPfi", use_after_free, table_arguments, 4, "demo.cu", 40, 4, 0, 0},
    {"_Z16demo_slack_writePKcPci", slack_write, three_arguments, 3, "demo.cu", 50, 1, 0, 0},
    {"_Z16demo_stream_racePKfPfi", stream_race, three_arguments, 3, "demo.cu", 0, 4, 0, 0},
    {"_Z14demo_first_nanPKfPfi", first_nan, three_arguments, 3, "demo.cu", 0, 4, 0, 0},
};

/* Called by the simulated driver's cuInit(): also in the process that launches a kernel again, which is this program too. */
PLANTED void cusim_program_kernels(void (*add)(const cusim_kernel *kernel));
PLANTED void cusim_program_kernels(void (*add)(const cusim_kernel *kernel))
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        add(&kernels[i]);
}
