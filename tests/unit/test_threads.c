/* Threads and their locks: numbers, memory, signals, a stack of our own, and the order of the ranks. */
#include "sim/child.h"

#include "base/thread.h"
#include "base/aside.h"
#include "base/lock.h"
#include "fault/descriptors.h"
#include "launch/host_waits.h"

static int knows_its_number(void)
{
    uint32_t first = thread_id(); /* asks, if it is the first time */
    return first == (uint32_t)syscall(SYS_gettid) && thread_id() == first;
}

static void *is_own(void *unused)
{
    return (void *)(uintptr_t)(knows_its_number() && thread_id() != (uint32_t)getpid());
}

static void check_number(void)
{
    CHECK(knows_its_number());
}

/* A forked child has another. */
TEST(a_thread_knows_its_number)
{
    pthread_t thread;
    void *is_right = NULL;
    assert_true(knows_its_number());
    assert_int_equal(pthread_create(&thread, NULL, is_own, NULL), 0);
    assert_int_equal(pthread_join(thread, &is_right), 0);
    assert_non_null(is_right);
    assert_true(knows_its_number());
    expect_ending(check_number, 0, NULL, NULL);
}

/* Where no signal may be sent, not even none, and whoever asks whether a thread is there is told that. */
static void wait_among_the_refused(void)
{
    struct host_wait waits[HOST_WAITS];
    CHECK(refuse(SYS_tgkill));
    alarm(20); /* instead of for ever */
    unsigned number = host_wait_begins("cuCtxSynchronize", __builtin_frame_address(0));
    CHECK(host_waits_read(waits) == 1 && host_waits_read(waits) == 1 && waits[0].tid == thread_id());
    host_wait_ends(number);
    CHECK(host_waits_read(waits) == 0);
    host_wait_ends(number); /* it is not noted any more */
    CHECK(host_wait_begins("cuCtxSynchronize", __builtin_frame_address(0)) == number);
    for (int i = 1; i < 100; i++) /* as many threads as a large host has */
        host_wait_begins("cuCtxSynchronize", __builtin_frame_address(0));
    CHECK(host_waits_read(waits) == 100);
}

TEST(a_wait_ends_whatever_is_refused)
{
    expect_ending(wait_among_the_refused, 0, NULL, NULL);
}

/* Reads an answer to its end, slowly at first. Returns its size. */
static void *read_answer(void *path)
{
    char bytes[4096];
    size_t size = 0;
    int pipe = open(path, O_RDONLY);
    usleep(100000);
    for (ssize_t got; (got = read(pipe, bytes, sizeof bytes)) > 0;) {
        size += (size_t)got;
        if (!bytes[got - 1])
            break;
    }
    close(pipe);
    return (void *)size;
}

/* More than fits into the pipe at once. Where nobody takes it, it is given up. */
TEST(an_answer_may_be_long)
{
    static char text[300000];
    char path[64], answers[64];
    void *size;
    pthread_t thread;
    memset(text, 'a', sizeof text - 1);
    assert_true(hidden_open(path, sizeof path));
    snprintf(answers, sizeof answers, "%.*s/%d", (int)(strrchr(path, '/') - path), path, HIDDEN_ANSWERS);
    assert_int_equal(pthread_create(&thread, NULL, read_answer, answers), 0);
    hidden_answer(text);
    assert_int_equal(pthread_join(thread, &size), 0);
    assert_int_equal((size_t)size, sizeof text);
    hidden_answer(text);
    hidden_close(path);
}

static void *blocked(void *out)
{
    pthread_sigmask(SIG_SETMASK, NULL, out);
    return NULL;
}

TEST(own_threads_take_no_signals)
{
    pthread_t thread;
    sigset_t before, after, own;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(thread_start(&thread, blocked, &own), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(sigismember(&own, SIGTERM) && sigismember(&own, SIGUSR1) && sigismember(&own, SIGCHLD));
    assert_false(sigismember(&own, SIGSEGV) || sigismember(&own, SIGABRT));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int signal = 1; signal < 32; signal++)
        assert_int_equal(sigismember(&after, signal), sigismember(&before, signal));
}

static struct thread_memory memory = {.size = 64};

static void *own_memory(void *unused)
{
    char *own = thread_memory(&memory);
    if (!own || own != thread_memory(&memory))
        return NULL;
    for (int i = 0; i < 64; i++) {
        if (own[i])
            return NULL;
    }
    own[0] = 1;
    return own;
}

TEST(each_thread_has_its_memory)
{
    pthread_t thread;
    void *other = NULL, *mine = own_memory(NULL);
    assert_non_null(mine);
    assert_int_equal(pthread_create(&thread, NULL, own_memory, NULL), 0);
    assert_int_equal(pthread_join(thread, &other), 0);
    assert_non_null(other);
    assert_ptr_not_equal(other, mine);
}

static void *ask_for_size(void *size)
{
    pthread_attr_t attributes;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    pthread_attr_getstacksize(&attributes, size);
    pthread_attr_destroy(&attributes);
    return NULL;
}

/* As `ulimit -s 64` sets it. */
TEST(own_threads_have_room_whatever_the_default)
{
    const size_t little = 64 << 10;
    size_t size = 0;
    pthread_attr_t before, attributes;
    pthread_t thread;
    pthread_getattr_default_np(&before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, little);
    assert_int_equal(pthread_setattr_default_np(&attributes), 0);
    assert_int_equal(thread_start(&thread, ask_for_size, &size), 0);
    pthread_join(thread, NULL);
    pthread_setattr_default_np(&before);
    assert_true(size >= 1 << 20);
}

/* ---- calls on a stack of our own ---- */

#define LARGE ((size_t)8 << 20)
#define SMALL ((size_t)128 << 10) /* PTHREAD_STACK_MIN of AArch64 */

/* What a call has seen. */
struct seen {
    int is_elsewhere, is_nested_elsewhere, is_back_home; /* not on the thread's own stack; the same in a nested call; ... */
    int state, state_back;                               /* of cancellation; in aside_return_for() */
    pthread_t thread;
    uint64_t sum;
};

static _Thread_local char *low, *high; /* of the thread's own stack */

static int is_on_own_stack(void)
{
    const char *at = __builtin_frame_address(0); /* AddressSanitizer may keep variables elsewhere */
    return at >= low && at < high;
}

static int cancel_state(void)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_setcancelstate(state, NULL);
    return state;
}

static void look_nested(void *argument)
{
    struct seen *seen = argument;
    seen->is_nested_elsewhere = !is_on_own_stack();
}

static void look_at_home(void *argument)
{
    struct seen *seen = argument;
    seen->is_back_home = is_on_own_stack();
    seen->state_back = cancel_state();
}

/* More than the thread's own stack has. */
static void go_deep(void *argument)
{
    struct seen *seen = argument;
    volatile unsigned char large[256 << 10];
    for (size_t i = 0; i < sizeof large; i += 64)
        large[i] = (unsigned char)(i >> 6);
    for (size_t i = 0; i < sizeof large; i += 64)
        seen->sum += large[i];
    seen->is_elsewhere = !is_on_own_stack();
    seen->state = cancel_state();
    seen->thread = pthread_self();
    aside_call(look_nested, seen);
    aside_return_for(look_at_home, seen);
    seen->sum += is_on_own_stack() == !seen->is_elsewhere;
}

static void *call_aside(void *argument)
{
    struct seen *seen = argument;
    pthread_attr_t attributes;
    size_t size;
    void *start;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0 || pthread_attr_getstack(&attributes, &start, &size) != 0)
        return NULL;
    low = start;
    high = low + size;
    pthread_attr_destroy(&attributes);
    aside_call(go_deep, seen);
    aside_call(look_nested, seen); /* the stack is used again */
    return cancel_state() == PTHREAD_CANCEL_ENABLE && is_on_own_stack() ? seen : NULL;
}

static void expect_seen(const struct seen *seen, int is_elsewhere, pthread_t thread)
{
    assert_int_equal(seen->sum, 4096 / 256 * (255 * 256 / 2) + 1);
    assert_int_equal(seen->is_elsewhere, is_elsewhere);
    assert_int_equal(seen->is_nested_elsewhere, is_elsewhere);
    assert_true(seen->is_back_home);
    assert_int_equal(seen->state, PTHREAD_CANCEL_DISABLE);
    assert_int_equal(seen->state_back, PTHREAD_CANCEL_ENABLE);
    assert_true(pthread_equal(seen->thread, thread));
}

static void run_on_stack_of(size_t size, unsigned count, int is_elsewhere)
{
    pthread_t threads[64];
    struct seen seen[64];
    pthread_attr_t attributes;
    void *result;
    memset(seen, 0, sizeof seen);
    assert_true(count <= 64);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], &attributes, call_aside, &seen[i]), 0);
    for (unsigned i = 0; i < count; i++) {
        pthread_t thread = threads[i];
        pthread_join(thread, &result);
        assert_ptr_equal(result, &seen[i]);
        expect_seen(&seen[i], is_elsewhere, thread);
    }
    pthread_attr_destroy(&attributes);
}

TEST(a_thread_with_room_stays_where_it_is)
{
    run_on_stack_of(LARGE, 1, 0);
}

TEST(a_thread_with_little_gets_another_stack)
{
    run_on_stack_of(SMALL, 1, 1);
    run_on_stack_of(SMALL, 64, 1); /* more than are kept */
}

TEST(outside_of_a_call_a_return_is_an_ordinary_call)
{
    struct seen seen = {0};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    aside_return_for(look_at_home, &seen);
    assert_int_equal(seen.state_back, PTHREAD_CANCEL_DISABLE);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
}

/* ---- locks: debug builds reject every other order ---- */

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
