/* Calls on a stack of our own: who gets one, and what a thread keeps meanwhile. */
#include "support/test.h"

#include "base/aside.h"

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
