/* Locks with ranks: the order of the ranks, and that debug builds reject any other order. */
#include "sim/child.h"

#include "base/lock.h"

#include <errno.h>

#ifdef NDEBUG
enum { IS_CHECKED = 0 };
#else
enum { IS_CHECKED = 1 };
#endif

static struct lock first = LOCK(RANK_VISIT), middle = LOCK(RANK_BOOKS), last = LOCK(RANK_ARENA);

static void rising(void)
{
    for (int i = 0; i < 2; i++) {
        lock_take(&first);
        lock_take(&middle);
        lock_release(&middle);
        lock_take(&last);
        lock_release(&first); /* not in the order in which they were taken */
        lock_release(&last);
    }
    assert_true(lock_try(&middle)); /* nothing is left of the others */
    assert_false(lock_try(&middle));
    lock_release(&middle);
}

static void falling(void)
{
    lock_take(&last);
    lock_take(&middle);
}

/* Of two locks of one rank each thread could have one. */
static void level(void)
{
    struct lock other;
    lock_init(&other, RANK_BOOKS);
    lock_take(&middle);
    lock_take(&other);
}

/* One in between is released, the outer one is still held. */
static void falling_after_a_release(void)
{
    lock_take(&middle);
    lock_take(&last);
    lock_release(&last);
    lock_take(&first);
}

static void *take_first(void *unused)
{
    lock_take(&first);
    lock_release(&first);
    return NULL;
}

static void of_another_thread(void)
{
    pthread_t thread;
    lock_take(&last);
    CHECK(pthread_create(&thread, NULL, take_first, NULL) == 0);
    pthread_join(thread, NULL);
    lock_release(&last);
}

static void expected(void)
{
    lock_take(&first);
    lock_take(&middle);
    lock_expect(RANK_BOOKS);
    lock_expect(RANK_VISIT);
    lock_release(&middle);
    lock_release(&first);
}

static void expected_after_a_release(void)
{
    expected();
    lock_expect(RANK_BOOKS);
}

TEST(the_order_of_ranks_is_fine)
{
    expect_ending(rising, 0, NULL, NULL);
    expect_ending(of_another_thread, 0, NULL, NULL);
    expect_ending(expected, 0, NULL, NULL);
}

static void released_twice(void)
{
    lock_take(&middle);
    lock_release(&middle);
    lock_left(RANK_BOOKS);
}

TEST(what_is_wrong_ends_a_debug_build)
{
    static const struct {
        void (*story)(void);
        const char *format;
        int first, second;
    } cases[] = {
        {falling, "a lock of rank %d is taken while one of rank %d is held", RANK_BOOKS, RANK_ARENA},
        {level, "a lock of rank %d is taken while one of rank %d is held", RANK_BOOKS, RANK_BOOKS},
        {falling_after_a_release, "a lock of rank %d is taken while one of rank %d is held", RANK_VISIT, RANK_BOOKS},
        {expected_after_a_release, "expected_after_a_release() is called without a lock of rank %d", RANK_BOOKS, 0},
        {released_twice, "lock_left() is called without a lock of rank %d", RANK_BOOKS, 0},
    };
    if (!IS_CHECKED)
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char wanted[128];
        struct outcome outcome = run_child(cases[i].story);
        snprintf(wanted, sizeof wanted, cases[i].format, cases[i].first, cases[i].second);
        assert_non_null(strstr(outcome.err, wanted));
        free(outcome.err);
        assert_true(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGABRT);
    }
}

/* The lock is not held while its owner waits. */
static void *wake(void *argument)
{
    lock_take(&middle);
    pthread_cond_signal(argument);
    lock_release(&middle);
    return NULL;
}

TEST(a_wait_releases_the_lock)
{
    const struct timespec past = {0};
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_t thread;
    lock_take(&middle);
    assert_int_equal(lock_wait(&middle, &condition, &past), ETIMEDOUT);
    assert_int_equal(pthread_create(&thread, NULL, wake, &condition), 0);
    assert_int_equal(lock_wait(&middle, &condition, NULL), 0);
    lock_expect(RANK_BOOKS);
    lock_release(&middle);
    pthread_join(thread, NULL);
}
