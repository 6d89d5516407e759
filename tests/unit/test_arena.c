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

struct gaps {
    uint64_t lead, gap; /* MiB, or GiB */
};

/* Calls it in a process of its own, which has no arena yet. */
static struct gaps in_child(void (*find)(uint64_t bytes, uint64_t gib, struct gaps *out), uint64_t bytes, uint64_t gib)
{
    static const struct driver simple = {.cuMemAddressReserve = reserve};
    int out[2];
    struct gaps found = {0};
    assert_int_equal(pipe(out), 0);
    if (fork() == 0) {
        driver = &simple;
        if (arena_open(bytes, 100, forget) == CUFENCE_OK)
            find(bytes, gib, &found);
        _exit(write(out[1], &found, sizeof found) != sizeof found);
    }
    wait(NULL);
    assert_int_equal(read(out[0], &found, sizeof found), sizeof found);
    close(out[0]);
    close(out[1]);
    return found;
}

static void find_first(uint64_t bytes, uint64_t gib, struct gaps *out)
{
    static struct slot slot;
    if (slot_cut(&slot, 0, 2 * MIB, 64 * MIB) != CUFENCE_OK)
        return;
    out->lead = (slot.base - arena_start()) / MIB;
    arena_visit(slot.base, 2, note_gap, &out->gap);
}

/* How far behind the start of the arena its first slot begins, and how much of that is its guard. */
static struct gaps first_of(uint64_t bytes)
{
    return in_child(find_first, bytes, 0);
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

#define GIB (1024 * MIB)

static void find_around(uint64_t bytes, uint64_t gib, struct gaps *out)
{
    static struct slot slots[4];
    for (unsigned i = 0; i < 4; i++)
        if (slot_cut(&slots[i], 0, i % 2 ? gib * GIB : 2 * MIB, 64 * MIB) != CUFENCE_OK)
            return;
    out->lead = (slots[3].base - (slots[2].base + 2 * MIB)) / GIB;
    out->gap = (slots[2].base - (slots[1].base + slots[1].mapped)) / GIB;
}

/* The slots of a fresh arena of `bytes`, each `gib` GiB with a guard of 64 MiB, and one of 2 MiB after each. Returns in GiB how
 * much is unmapped in front of the second large one, behind the small one, and behind the large one. */
static struct gaps around_large(uint64_t bytes, uint64_t gib)
{
    return in_child(find_around, bytes, gib);
}

/* 2^31 elements of 8 bytes, with either sign. */
TEST(where_a_wrapped_index_leads_nothing_is_mapped)
{
    most = 64 * TIB;
    struct gaps unmapped = around_large(64 * TIB, 2);
    assert_int_equal(unmapped.lead, 16);
    assert_int_equal(unmapped.gap, 16);
    unmapped = around_large(64 * TIB, 1);
    assert_int_equal(unmapped.lead, 0);
    assert_int_equal(unmapped.gap, 0);
}

TEST(little_address_space_is_not_spent_on_wraps)
{
    most = 64 * TIB;
    struct gaps unmapped = around_large(256 * GIB, 3); /* guards take a 128th of what is free */
    assert_in_range(unmapped.lead, 1, 2);
    assert_in_range(unmapped.gap, 1, 2);
    assert_int_equal(around_large(7 * GIB, 3).gap, 0);
}
