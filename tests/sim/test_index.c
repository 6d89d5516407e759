/* The index of live buffers: who gets a buffer that several want to free, and one that another has taken the place of. */
#include "support/test.h"

#include "driver/driver.h"
#include "heap/heap_internal.h"

#include <sched.h>
#include <sys/time.h>

#define PAGE ((uint64_t)2 << 20)

static void forget(struct slot *slot)
{
}

static int open_index(void **state)
{
    assert_int_equal(driver_load(), CUFENCE_OK);
    assert_int_equal(driver->cuInit(0), CUDA_SUCCESS);
    assert_int_equal(arena_open((uint64_t)1 << 30, 16, forget), CUFENCE_OK);
    assert_int_equal(index_open(1), CUFENCE_OK);
    return 0;
}

static struct block *new_block(void)
{
    struct block *block = line_alloc(sizeof *block);
    assert_non_null(block);
    block->pages = 1;
    return block;
}

/* Gives a held block a buffer at the address. */
static void live_at(struct block *block, uint64_t address)
{
    const struct facts facts = {.id = 1, .address = address, .size = 64};
    facts_write(block, &facts);
    index_add(block);
}

TEST(a_buffer_is_claimed_by_its_first_byte_once)
{
    uint64_t address = arena_start() + 8 * PAGE + 4096;
    struct block *block = new_block();
    live_at(block, address);
    assert_null(index_claim(address + 16));
    assert_null(index_claim(address - 16));
    assert_null(index_find(0));
    assert_null(index_find(arena_end()));
    assert_ptr_equal(index_find(address), block);
    assert_ptr_equal(index_claim(address), block);
    assert_null(index_find(address));
    assert_null(index_claim(address));
    assert_int_equal(block->state, BLOCK_HELD);
    free(block);
}

/* The memory serves again, flush with the end for another size: the old address means nothing any more. */
TEST(the_next_buffer_of_a_page_is_not_the_last_one)
{
    uint64_t first = arena_start() + 16 * PAGE, second = first + 4096;
    struct block *block = new_block();
    live_at(block, first);
    assert_ptr_equal(index_claim(first), block);
    live_at(block, second);
    assert_null(index_claim(first));
    assert_ptr_equal(index_holding(second + 63), block);
    assert_ptr_equal(index_claim(second), block);
    free(block);
}

/* Until another buffer begins there, or it is said that there is none any more. */
TEST(a_freed_buffer_is_marked)
{
    uint64_t first = arena_start() + 24 * PAGE, second = first + 2 * PAGE;
    struct block *block = new_block();
    block->pages = 4;
    assert_false(heap_looks_freed(first));
    live_at(block, second);
    assert_false(heap_looks_freed(second));
    assert_ptr_equal(index_claim(second), block);
    assert_true(heap_looks_freed(second));
    assert_true(heap_looks_freed(second + PAGE + 100));
    assert_false(heap_looks_freed(first));
    live_at(block, first); /* with the mark in its midst */
    assert_ptr_equal(index_holding(second + 8), block);
    assert_null(index_find(second));
    assert_null(index_claim(second));
    index_unmark(second + PAGE);
    assert_false(heap_looks_freed(second));
    assert_ptr_equal(index_claim(first), block);
    assert_true(heap_looks_freed(first + 2 * PAGE));
    live_at(block, first);
    assert_false(heap_looks_freed(first + 2 * PAGE));
    __atomic_store_n(&block->pool, (struct pool *)8, __ATOMIC_RELAXED);
    assert_ptr_equal(index_claim(first), block);
    assert_false(heap_looks_freed(first));
    free(block);
}

/* ---- one address is freed twice, while the memory serves another buffer and the first one again ---- */

static uint64_t places[2]; /* in one page */

/* Asks for one signal: of a timer with an interval, a slow machine would handle nothing else. */
static void interrupt_soon(void)
{
    static unsigned often;
    const struct itimerval soon = {.it_value.tv_usec = 5 + often++ % 16};
    setitimer(ITIMER_REAL, &soon, NULL);
}

/* Finds a live buffer at the first place, and has its memory serve another one. */
static void move_on(int signal)
{
    struct block *block = index_claim(places[0]);
    if (block)
        live_at(block, places[1]);
    interrupt_soon();
}

/* Another thread may come between any two instructions of a claim. So may a signal, and it comes more often. */
TEST(a_late_claim_gets_no_other_buffer)
{
    enum { MOVES = 1000, CLAIMS = 4000000 };
    struct sigaction action = {.sa_handler = move_on}, before;
    struct block *block = new_block();
    int moves = 0, wrong = 0;
    places[0] = arena_start() + 32 * PAGE;
    places[1] = places[0] + 4096;
    live_at(block, places[0]);
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    interrupt_soon();
    for (int i = 0; i < CLAIMS && moves < MOVES; i++) {
        if (index_claim(places[0])) {
            wrong += block->facts.address != places[0];
        } else {
            assert_ptr_equal(index_claim(places[1]), block);
            moves++;
        }
        live_at(block, places[0]);
    }
    signal(SIGALRM, SIG_IGN);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(wrong, 0);
#ifndef __SANITIZE_THREAD__ /* which holds signals back */
    assert_true(moves > 0);
#endif
    assert_ptr_equal(index_claim(block->facts.address), block);
    free(block);
}

enum { THREADS = 4, CLAIMS = 40000 };

static int holders; /* atomic: that have the block in their hands */
static int wrong;   /* atomic */
static int claims;  /* atomic */

static void *claim_and_move(void *argument)
{
    uint64_t from = places[(uintptr_t)argument % 2], to = places[((uintptr_t)argument + 1) % 2];
    while (__atomic_load_n(&claims, __ATOMIC_RELAXED) < CLAIMS) {
        struct block *block = index_claim(from);
        if (!block) {
            sched_yield();
            continue;
        }
        int is_alone = __atomic_fetch_add(&holders, 1, __ATOMIC_ACQ_REL) == 0;
        if (!is_alone || block->facts.address != from)
            __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&claims, 1, __ATOMIC_RELAXED);
        __atomic_sub_fetch(&holders, 1, __ATOMIC_ACQ_REL);
        live_at(block, to);
    }
    return NULL;
}

TEST(one_of_several_threads_gets_it)
{
    pthread_t threads[THREADS];
    places[0] = arena_start() + 40 * PAGE;
    places[1] = places[0] + 4096;
    struct block *block = new_block();
    live_at(block, places[0]);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_and_move, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    assert_ptr_equal(index_claim(block->facts.address), block);
    free(block);
}

/* ---- very large buffers: one entry for thousands of pages ---- */

TEST(a_large_buffer_is_found_from_its_tail)
{
    static struct block large;
    uint64_t guard = 4 * PAGE, pages = 200;
    large.pages = 200;
    assert_int_equal(slot_cut(&large.slot, 0, pages * PAGE, guard), CUFENCE_OK);
    large.slot.is_mapped = 1;
    live_at(&large, large.slot.base + 100);
    assert_int_equal(arena_base_of(large.slot.base + pages * PAGE - 1), large.slot.base);
    assert_ptr_equal(index_holding(large.slot.base + pages * PAGE - 1), &large);
    assert_ptr_equal(index_holding(large.slot.base + pages / 2 * PAGE), &large);
    assert_int_equal(arena_base_of(large.slot.base + pages * PAGE), 0); /* the guard is no mapping */
}

TEST_GROUP(open_index, NULL)
