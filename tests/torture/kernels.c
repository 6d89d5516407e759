/*
 * The kernels (kernels.cu) for the simulated device of any process (CUSIM_KERNELS), and those with a defect: the process that
 * launches a faulted one again needs them too.
 */
#include "base/clock.h"
#include "driver.h"

#include <stdlib.h>
#include <time.h>

/* Looking for other work on the same memory at the same time is the purpose; the model decides whether it is allowed. */
#if defined(__SANITIZE_THREAD__)
#define RACES __attribute__((no_sanitize("thread")))
#else
#define RACES
#endif

RACES static void fill(const cusim_thread *thread, void *const *arguments)
{
    volatile uint32_t *to = *(volatile uint32_t *const *)arguments[0];
    uint64_t words = *(const uint64_t *)arguments[1], threads = (uint64_t)thread->grid[0] * thread->block[0];
    uint32_t value = *(const uint32_t *)arguments[2], step = *(const uint32_t *)arguments[3];
    for (uint64_t i = thread->block_index[0] * thread->block[0] + thread->thread_index[0]; i < words; i += threads)
        to[i] = value + (uint32_t)i * step;
}

RACES static void check(const cusim_thread *thread, void *const *arguments)
{
    const volatile uint32_t *from = *(const volatile uint32_t *const *)arguments[0];
    uint64_t words = *(const uint64_t *)arguments[1];
    uint32_t value = *(const uint32_t *)arguments[2], step = *(const uint32_t *)arguments[3];
    struct result *result = *(struct result *const *)arguments[4];
    for (uint64_t i = 0; i < words; i++) {
        uint32_t got = from[i];
        if (got != value + (uint32_t)i * step && result->wrong++ == 0) {
            result->index = (uint32_t)i;
            result->got = got;
        }
    }
    result->done++;
}

RACES static void copy(const cusim_thread *thread, void *const *arguments)
{
    volatile uint32_t *to = *(volatile uint32_t *const *)arguments[0];
    const volatile uint32_t *from = *(const volatile uint32_t *const *)arguments[1];
    uint64_t words = *(const uint64_t *)arguments[2];
    for (uint64_t i = 0; i < words; i++)
        to[i] = from[i];
}

static void hold(const cusim_thread *thread, void *const *arguments)
{
    const uint32_t *flag = *(const uint32_t *const *)arguments[0];
    uint32_t *expired = *(uint32_t *const *)arguments[1];
    uint64_t start = monotonic_ns() / 1000, most = *(const uint32_t *)arguments[2];
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE)) {
        if (monotonic_ns() / 1000 - start >= most) {
            __atomic_add_fetch(expired, 1, __ATOMIC_RELEASE);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
}

/* ---- with a defect: they write past the end if the count is too large by one ---- */

static void store(const cusim_thread *thread, void *const *arguments)
{
    volatile uint32_t *to = *(volatile uint32_t *const *)arguments[0];
    uint32_t i = thread->block_index[0] * thread->block[0] + thread->thread_index[0];
    if (i < *(const uint32_t *)arguments[1])
        to[i] = i;
}

static void store_hosted(const cusim_thread *thread, void *const *arguments)
{
    struct hosted *hosted = *(struct hosted *const *)arguments[0];
    store(thread, (void *const[]){&hosted->to, &hosted->words});
}

/* The process of the second launch has no CUFENCE_OPTIONS. */
static void hang_later(const cusim_thread *thread, void *const *arguments)
{
    if (getenv("CUFENCE_OPTIONS") == NULL)
        nanosleep(&(struct timespec){.tv_sec = 60}, NULL);
    store(thread, arguments);
}

__attribute__((constructor)) static void add_kernels(void)
{
    static const size_t fill_bytes[] = {8, 8, 4, 4}, check_bytes[] = {8, 8, 4, 4, 8}, copy_bytes[] = {8, 8, 8},
                        hold_bytes[] = {8, 8, 4}, store_bytes[] = {8, 4};
    static const cusim_kernel kernels[] = {
        {.name = "torture_fill", .function = fill, .argument_bytes = fill_bytes, .argument_count = 4},
        {.name = "torture_check", .function = check, .argument_bytes = check_bytes, .argument_count = 5},
        {.name = "torture_copy", .function = copy, .argument_bytes = copy_bytes, .argument_count = 3},
        {.name = "torture_hold", .function = hold, .argument_bytes = hold_bytes, .argument_count = 3},
        {.name = "store",
         .function = store,
         .argument_bytes = store_bytes,
         .argument_count = 2,
         .file = "kernels.cu",
         .line = 12},
        {.name = "store_hosted", .function = store_hosted, .argument_bytes = store_bytes, .argument_count = 1},
        {.name = "hang_later", .function = hang_later, .argument_bytes = store_bytes, .argument_count = 2},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        cusim_register_kernel(&kernels[i]);
}
