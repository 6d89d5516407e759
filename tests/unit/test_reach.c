/* The kernel that follows pointers, on the host. */
#include "support/test.h"

#include "inspect/kernels/reach.h"
#include "sim/sim.h"

void own_reach(const cusim_thread *thread, void *const *arguments); /* sim/own.cpp */

enum { BUFFERS = 6, WORDS = 64 };

static struct {
    _Alignas(64) uint64_t memory[BUFFERS][WORDS]; /* each buffer is the mapping's last bytes */
    struct reach_buffer table[BUFFERS];
    _Alignas(16) uint8_t before[4096], after[4096];
    union {
        struct reach_queue queue;
        uint32_t words[2 + BUFFERS];
    } found;
} world;

static void run(const struct reach *reach)
{
    const cusim_thread thread = {.block = {1, 1, 1}};
    void *list[] = {(void *)(uintptr_t)reach};
    own_reach(&thread, list);
}

static uint64_t address(size_t buffer, size_t byte)
{
    return (uint64_t)(uintptr_t)world.memory[buffer] + byte;
}

/* Buffer 0 is the only one to begin with. The sizes: 512, 512, 500, ... bytes at the end of the mapping. */
static struct reach start(void)
{
    memset(&world, 0, sizeof world);
    for (size_t i = 0; i < BUFFERS; i++) {
        uint64_t size = sizeof world.memory[i] - (i >= 2 ? 12 : 0);
        world.table[i] = (struct reach_buffer){.start = address(i, 0),
                                               .end = address(i, sizeof world.memory[i]),
                                               .address = address(i, sizeof world.memory[i] - size),
                                               .size = size,
                                               .at = REACH_NONE,
                                               .is_found = i == 0};
    }
    world.found.queue.count = 1;
    return (struct reach){.table = (uint64_t)(uintptr_t)world.table,
                          .queue = (uint64_t)(uintptr_t)&world.found,
                          .out = (uint64_t)(uintptr_t)world.before,
                          .room = sizeof world.before,
                          .each = 4096,
                          .most = 65536,
                          .count = BUFFERS,
                          .first = 1};
}

/* 0 -> 3 -> 1 -> 3 and itself; 2 is only pointed to from 4, which nothing leads to. */
static void tie(void)
{
    world.memory[0][5] = address(3, 100);
    world.memory[0][6] = address(3, 0); /* its slack: the same mapping */
    world.memory[3][63] = address(1, 511);
    world.memory[1][0] = address(3, 8);
    world.memory[1][1] = address(1, 0);
    world.memory[1][2] = address(0, 0);
    world.memory[4][10] = address(2, 20);
    world.memory[1][3] = address(5, 512); /* one past the end of the last */
}

TEST(pointers_are_followed)
{
    struct reach reach = start();
    tie();
    run(&reach);
    assert_int_equal(world.found.queue.count, 3);
    assert_int_equal(world.found.queue.at[1], 3);
    assert_int_equal(world.found.queue.at[2], 1);
    assert_int_equal(world.table[3].at, 0);
    assert_int_equal(world.table[1].at, 512); /* 500 rounded up */
    assert_memory_equal(world.before, (const uint8_t *)world.memory[3] + 12, 500);
    assert_memory_equal(world.before + 512, world.memory[1], 512);
    assert_false(world.table[2].is_found || world.table[4].is_found || world.table[5].is_found);

    world.memory[1][9] = 77;
    world.memory[1][10] = address(4, 0);
    reach.is_again = 1;
    reach.out = (uint64_t)(uintptr_t)world.after;
    run(&reach);
    assert_int_equal(world.found.queue.count, 3);
    assert_memory_equal(world.after + 512, world.memory[1], 512);
    assert_memory_not_equal(world.before + 512, world.after + 512, 512);
    assert_false(world.table[4].is_found);
}

TEST(what_has_no_room_is_left_out)
{
    struct reach reach = start();
    tie();
    reach.room = 1000; /* 500 bytes fit, and 512 more do not */
    run(&reach);
    assert_int_equal(world.found.queue.count, 3);
    assert_int_equal(world.table[3].at, 0);
    assert_true(world.table[1].at == REACH_NONE);
    assert_int_equal(world.before[512], 0);
}

/* The last bytes are searched, at multiples of 8. */
TEST(the_search_has_limits)
{
    struct reach reach = start();
    tie();
    reach.each = 512 - 6 * 8; /* without the words 0 to 5 */
    run(&reach);
    assert_int_equal(world.found.queue.count, 3); /* by word 6 */
    reach = start();
    tie();
    reach.each = 512 - 7 * 8;
    run(&reach);
    assert_int_equal(world.found.queue.count, 1);
    reach = start();
    tie();
    reach.most = 512;
    run(&reach);
    assert_int_equal(world.found.queue.count, 2);
    reach = start();
    memcpy((char *)world.memory[0] + 20, &(uint64_t){address(3, 100)}, 8);
    world.memory[0][63] = address(2, 0) - 1; /* the one before */
    run(&reach);
    assert_int_equal(world.found.queue.count, 2);
    assert_int_equal(world.found.queue.at[1], 1);
}
