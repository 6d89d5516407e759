/* Where the slots of an arena lie. */
#include "support/test.h"

#include "driver/driver.h"
#include "vmm/arena.h"

#define MIB ((uint64_t)1 << 20)
#define TIB ((uint64_t)1 << 40)
#define START ((uint64_t)0x31e000000)

static uint64_t most; /* that the driver reserves */

static CUresult reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wanted, unsigned long long flags)
{
    *address = START;
    return size <= most ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void forget(struct slot *slot)
{
}

static void note_gap(struct slot *slot, uint64_t gap_start, void *user)
{
    *(uint64_t *)user = (slot->base - gap_start) / MIB;
}

struct first_slot {
    uint64_t lead, gap; /* MiB */
};

/* Returns how far behind the start of the arena its first slot begins, and how much of that is its guard. A process has one
 * arena. */
static struct first_slot first_of(uint64_t bytes)
{
    static const struct driver simple = {.cuMemAddressReserve = reserve};
    static struct slot slot;
    int out[2];
    struct first_slot first = {0};
    assert_int_equal(pipe(out), 0);
    if (fork() == 0) {
        driver = &simple;
        if (arena_open(bytes, 100, forget) == CUFENCE_OK && slot_cut(&slot, 0, 2 * MIB, 64 * MIB) == CUFENCE_OK)
            first.lead = (slot.base - arena_start()) / MIB;
        if (first.lead)
            arena_visit(slot.base, 2, note_gap, &first.gap);
        _exit(write(out[1], &first, sizeof first) != sizeof first);
    }
    wait(NULL);
    assert_int_equal(read(out[0], &first, sizeof first), sizeof first);
    close(out[0]);
    close(out[1]);
    return first;
}

/* Memory that the driver places by itself lies at low addresses, in every process. */
TEST(slots_of_a_large_arena_are_far_from_its_start)
{
    most = 64 * TIB;
    assert_int_equal(first_of(64 * TIB).lead, TIB / MIB);
    assert_int_equal(first_of(16 * TIB).lead, TIB / MIB);
}

/* An address far in front of the first buffer is no underrun of it. */
TEST(what_lies_in_front_is_no_guard)
{
    most = 64 * TIB;
    assert_int_equal(first_of(64 * TIB).gap, 64);
    assert_int_equal(first_of(TIB).gap, 64);
}

TEST(a_smaller_arena_is_used_whole)
{
    most = 8 * TIB; /* the driver gives less than asked for */
    assert_int_equal(first_of(64 * TIB).lead, 64);
    assert_int_equal(first_of(TIB).lead, 64);
}
