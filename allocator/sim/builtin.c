#include "trap.h"
#include "kernel.h"

#include <unistd.h>

#define SPIN_SECONDS 10

/* Keeps sanitizers from reporting accesses that are meant to fault. */
#define NOT_SANITIZED __attribute__((no_sanitize("address", "undefined")))

NOT_SANITIZED static void poison(const cusim_thread *thread, void *const *arguments)
{
    volatile uint32_t *word = (volatile uint32_t *)*(const uintptr_t *)arguments[0];
    *word = *word;
}

/* Until it is nonzero, or for 10 s. */
static void await(const uint32_t *flag)
{
    for (unsigned waited = 0; !__atomic_load_n(flag, __ATOMIC_ACQUIRE) && waited < SPIN_SECONDS * 10000; waited++)
        usleep(100);
}

static void spin(const cusim_thread *thread, void *const *arguments)
{
    await(*(const uint32_t *const *)arguments[0]);
}

SIM_API void cusim_raise(uint32_t exception)
{
    fault_raise(exception);
}

static void raise(const cusim_thread *thread, void *const *arguments)
{
    fault_raise(*(const uint32_t *)arguments[0]);
}

static void fence(const cusim_thread *thread, void *const *arguments)
{
}

static void mark(const cusim_thread *thread, void *const *arguments)
{
    __atomic_store_n(*(uint64_t *const *)arguments[0], 1, __ATOMIC_RELEASE);
}

static const uint32_t *room; /* atomic */

SIM_API void cusim_hold_own(const uint32_t *flag)
{
    __atomic_store_n(&room, flag, __ATOMIC_RELEASE);
}

/* For the first thread of a launch. Late is also one launch in eight, by another part of the limit each time. */
static void be_late(const cusim_thread *thread)
{
    static uint32_t launches; /* atomic */
    const uint32_t *flag = __atomic_load_n(&room, __ATOMIC_ACQUIRE);
    unsigned most = (unsigned)config_get()->slow;
    if (thread->block_index[0] || thread->thread_index[0])
        return;
    if (flag)
        await(flag);
    uint32_t mixed = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED) * UINT32_C(0x9e3779b9);
    if (most && mixed >> 29 == 0)
        usleep((mixed ^ mixed >> 16) % most);
}

#define LATE(name)                                                                                                             \
    static void name(const cusim_thread *thread, void *const *arguments)                                                       \
    {                                                                                                                          \
        be_late(thread);                                                                                                       \
        own_##name(thread, arguments);                                                                                         \
    }
LATE(pattern)
LATE(pattern_fill)

static const size_t one_pointer[] = {sizeof(uint64_t)}, one_number[] = {sizeof(uint32_t)},
                    two_pointers[] = {sizeof(uint64_t), sizeof(uint64_t)};
static const size_t of_reach[] = {3 * sizeof(void *) + 3 * sizeof(uint64_t) + 4 * sizeof(uint32_t)};
static const size_t of_figures[] = {64 * (3 * sizeof(uint64_t) + 4 * sizeof(uint32_t)) + 2 * sizeof(uint32_t)};

const cusim_kernel builtin_kernels[] = {
    {.name = "cufence_fence", .function = fence},
    {.name = "cufence_poison", .function = poison, .argument_bytes = one_pointer, .argument_count = 1, .access_bytes = 4},
    {.name = "cufence_pattern", .function = pattern, .argument_bytes = two_pointers, .argument_count = 2},
    {.name = "cufence_pattern_fill", .function = pattern_fill, .argument_bytes = two_pointers, .argument_count = 2},
    {.name = "cufence_reach", .function = own_reach, .argument_bytes = of_reach, .argument_count = 1, .access_bytes = 8},
    {.name = "cufence_mark", .function = mark, .argument_bytes = one_pointer, .argument_count = 1, .access_bytes = 8},
    {.name = "cufence_figures", .function = own_figures, .argument_bytes = of_figures, .argument_count = 1, .access_bytes = 8},
    {.name = "cufence_nans", .function = own_nans, .argument_bytes = of_figures, .argument_count = 1, .access_bytes = 8},
    {.name = "cusim_spin", .function = spin, .argument_bytes = one_pointer, .argument_count = 1, .access_bytes = 4},
    {.name = "cusim_raise", .function = raise, .argument_bytes = one_number, .argument_count = 1, .access_bytes = 4},
};

const size_t builtin_kernel_count = sizeof builtin_kernels / sizeof builtin_kernels[0];
