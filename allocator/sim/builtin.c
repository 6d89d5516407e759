#include "fault.h"
#include "figures.h"
#include "kernel.h"

#include <time.h>

#define SPIN_SECONDS 10

/* Keeps sanitizers from reporting accesses that are meant to fault. */
#if defined(__clang__) || defined(__GNUC__)
#define NOT_SANITIZED __attribute__((no_sanitize("address", "undefined")))
#else
#define NOT_SANITIZED
#endif

NOT_SANITIZED static void poison(const cusim_thread *thread, void *const *arguments)
{
    (void)thread;
    volatile uint32_t *word = (volatile uint32_t *)*(const uintptr_t *)arguments[0];
    *word = *word;
}

static void spin(const cusim_thread *thread, void *const *arguments)
{
    (void)thread;
    const uint32_t *flag = *(const uint32_t *const *)arguments[0];
    for (unsigned waited = 0; __atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0 && waited < SPIN_SECONDS * 10000; waited++) {
        struct timespec pause = {.tv_nsec = 100000};
        nanosleep(&pause, NULL);
    }
}

static void raise(const cusim_thread *thread, void *const *arguments)
{
    (void)thread;
    fault_raise(*(const uint32_t *)arguments[0]);
}

static void fence(const cusim_thread *thread, void *const *arguments)
{
    (void)thread;
    (void)arguments;
}

static void mark(const cusim_thread *thread, void *const *arguments)
{
    (void)thread;
    __atomic_store_n(*(uint64_t *const *)arguments[0], 1, __ATOMIC_RELEASE);
}

static const size_t one_pointer[] = {sizeof(uint64_t)}, one_number[] = {sizeof(uint32_t)},
                    two_pointers[] = {sizeof(uint64_t), sizeof(uint64_t)};
static const size_t of_hash[] = {32 * 3 * sizeof(uint64_t), sizeof(uint32_t), sizeof(uint64_t)};
static const size_t of_reach[] = {3 * sizeof(void *) + 3 * sizeof(uint64_t) + 4 * sizeof(uint32_t)};
static const size_t some_items[] = {sizeof(struct twin_items)};

const cusim_kernel builtin_kernels[] = {
    {.name = "cufence_fence", .function = fence},
    {.name = "cufence_poison", .function = poison, .argument_bytes = one_pointer, .argument_count = 1, .access_bytes = 4},
    {.name = "cufence_pattern", .function = builtin_pattern, .argument_bytes = two_pointers, .argument_count = 2},
    {.name = "cufence_pattern_fill", .function = builtin_pattern_fill, .argument_bytes = two_pointers, .argument_count = 2},
    {.name = "cufence_hash", .function = kernel_hash, .argument_bytes = of_hash, .argument_count = 3, .access_bytes = 8},
    {.name = "cufence_reach", .function = kernel_reach, .argument_bytes = of_reach, .argument_count = 1, .access_bytes = 8},
    {.name = "cufence_mark", .function = mark, .argument_bytes = one_pointer, .argument_count = 1, .access_bytes = 8},
    {.name = "cufence_figures", .function = figures_twin, .argument_bytes = some_items, .argument_count = 1, .access_bytes = 8},
    {.name = "cufence_nans", .function = nans_twin, .argument_bytes = some_items, .argument_count = 1, .access_bytes = 8},
    {.name = "cusim_spin", .function = spin, .argument_bytes = one_pointer, .argument_count = 1, .access_bytes = 4},
    {.name = "cusim_raise", .function = raise, .argument_bytes = one_number, .argument_count = 1, .access_bytes = 4},
};

const size_t builtin_kernel_count = sizeof builtin_kernels / sizeof builtin_kernels[0];
