/* Kernels for the simulated device of any process (CUSIM_KERNELS): the one that launches a faulted one again needs them too. */
#include <sim/sim.h>

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static void fill(const cusim_thread *thread, void *const *arguments)
{
    (void)thread;
    volatile uint32_t *to = *(volatile uint32_t *const *)arguments[0];
    for (uint32_t i = 0; i < *(const uint32_t *)arguments[1]; i++)
        to[i] = *(const uint32_t *)arguments[2] + i;
}

static void add(const cusim_thread *thread, void *const *arguments)
{
    volatile uint32_t *words = *(volatile uint32_t *const *)arguments[0];
    uint32_t i = thread->block_index[0] * thread->block[0] + thread->thread_index[0];
    if (i < *(const uint32_t *)arguments[1])
        words[i] += *(const uint32_t *)arguments[2];
}

static void pause_for(long microseconds)
{
    nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000}, NULL);
}

static void nap(const cusim_thread *thread, void *const *arguments)
{
    pause_for(*(const uint32_t *)arguments[2]);
    fill(thread, (void *const[]){arguments[0], arguments[1], arguments[2]});
}

/* Writes past the end if the count is too large by one. */
static void store(const cusim_thread *thread, void *const *arguments)
{
    volatile uint32_t *to = *(volatile uint32_t *const *)arguments[0];
    uint32_t i = thread->block_index[0] * thread->block[0] + thread->thread_index[0];
    if (i < *(const uint32_t *)arguments[1])
        to[i] = i;
}

struct hosted {
    volatile uint32_t *to;
    uint32_t words;
};

static void store_hosted(const cusim_thread *thread, void *const *arguments)
{
    const struct hosted *hosted = *(const struct hosted *const *)arguments[0];
    uint32_t i = thread->block_index[0] * thread->block[0] + thread->thread_index[0];
    if (i < hosted->words)
        hosted->to[i] = i;
}

/* The process of the second launch has no CUFENCE_OPTIONS. */
static void hang_later(const cusim_thread *thread, void *const *arguments)
{
    if (getenv("CUFENCE_OPTIONS") == NULL)
        pause_for(60000000);
    store(thread, arguments);
}

__attribute__((constructor)) static void add_kernels(void)
{
    static const size_t three[] = {8, 4, 4}, two[] = {8, 4}, one[] = {8};
    static const cusim_kernel kernels[] = {
        {.name = "fill", .function = fill, .argument_bytes = three, .argument_count = 3},
        {.name = "add", .function = add, .argument_bytes = three, .argument_count = 3},
        {.name = "nap", .function = nap, .argument_bytes = three, .argument_count = 3},
        {.name = "store", .function = store, .argument_bytes = two, .argument_count = 2, .file = "kernels.cu", .line = 12},
        {.name = "store_hosted", .function = store_hosted, .argument_bytes = one, .argument_count = 1},
        {.name = "hang_later", .function = hang_later, .argument_bytes = two, .argument_count = 2},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        cusim_register_kernel(&kernels[i]);
}
