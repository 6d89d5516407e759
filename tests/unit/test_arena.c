/* Where the slots of an arena lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "driver/driver.h"
#include "vmm/arena.h"

#define MIB ((uint64_t)1 << 20)
#define TIB ((uint64_t)1 << 40)
#define START ((uint64_t)0x31e000000)

static uint64_t most; /* that the driver reserves */

static CUresult reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wanted, unsigned long long flags)
{
    (void)alignment;
    (void)flags;
    (void)wanted;
    *address = START;
    return size <= most ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void forget(struct slot *slot)
{
    (void)slot;
}

/* Returns how far behind the start of the arena its first slot begins, in MiB. A process has one arena. */
static uint64_t lead_of(uint64_t bytes)
{
    static const struct driver simple = {.cuMemAddressReserve = reserve};
    static struct slot slot;
    int out[2];
    uint64_t lead = 0;
    assert_int_equal(pipe(out), 0);
    if (fork() == 0) {
        driver = &simple;
        if (arena_open(bytes, 100, forget) == CUFENCE_OK && slot_cut(&slot, 0, 2 * MIB, 64 * MIB) == CUFENCE_OK)
            lead = (slot.base - arena_start()) / MIB;
        _exit(write(out[1], &lead, sizeof lead) != sizeof lead);
    }
    wait(NULL);
    assert_int_equal(read(out[0], &lead, sizeof lead), sizeof lead);
    close(out[0]);
    close(out[1]);
    return lead;
}

/* Memory that the driver places by itself lies at low addresses, in every process. */
static void slots_of_a_large_arena_are_far_from_its_start(void **state)
{
    (void)state;
    most = 64 * TIB;
    assert_int_equal(lead_of(64 * TIB), TIB / MIB);
    assert_int_equal(lead_of(16 * TIB), TIB / MIB);
}

static void a_smaller_arena_is_used_whole(void **state)
{
    (void)state;
    most = 8 * TIB; /* the driver gives less than asked for */
    assert_int_equal(lead_of(64 * TIB), 64);
    assert_int_equal(lead_of(TIB), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_of_a_large_arena_are_far_from_its_start),
        cmocka_unit_test(a_smaller_arena_is_used_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
