/* A library for CUSIM_KERNELS: kernels for processes that register none. */
#include <sim/sim.h>

static void store_last(const cusim_thread *thread, void *const *arguments) __attribute__((no_sanitize("address", "undefined")));

/* Thread number `index` alone stores, and that is the last thing it does. */
static void store_last(const cusim_thread *thread, void *const *arguments)
{
    volatile uint32_t *out = *(volatile uint32_t *const *)arguments[0];
    uint32_t index = *(const uint32_t *)arguments[1];
    if (thread->block_index[0] * thread->block[0] + thread->thread_index[0] == index)
        out[index] = 1000 + index;
}

__attribute__((constructor)) static void add(void)
{
    static const size_t pointer_and_number[] = {8, 4};
    static const cusim_kernel kernel = {"store_last", store_last, pointer_and_number, 2, "share.cu", 7, 4, 0, 1};
    cusim_register_kernel(&kernel);
}
