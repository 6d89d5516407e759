/* The end of a process whose driver no longer answers. */
#include "heap_story.h"

#include "driver/driver.h"

static int is_hanging; /* atomic */

static CUresult hang(CUdeviceptr address, size_t size)
{
    __atomic_store_n(&is_hanging, 1, __ATOMIC_RELEASE);
    while (is_hanging)
        pause();
    return CUDA_ERROR_UNKNOWN;
}

/* The background thread unmaps what uaf=strict has freed. */
static void the_background_thread_hangs(void)
{
    start("uaf=strict,slack=off");
    void *pointer = allocate(MIB, NULL);
    ((struct driver *)(uintptr_t)driver)->cuMemUnmap = hang;
    CHECK_OK(cufence_free(pointer, NULL));
    AWAIT(__atomic_load_n(&is_hanging, __ATOMIC_ACQUIRE));
    CHECK(is_hanging);
    alarm(20); /* against what this is about: an end that waits for the thread */
}

TEST(a_process_ends_although_a_driver_call_does_not)
{
    expect_ending(the_background_thread_hangs, 0, NULL, NULL);
}
