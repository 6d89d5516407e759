/* base/thread: numbers of threads, memory of threads, and the signals that cufence's own threads leave to the program. */
#include "support/test.h"

#include "base/thread.h"

#include <sys/syscall.h>

static uint32_t asked(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

static void *is_own(void *unused)
{
    uint32_t first = thread_id(); /* asks */
    return (void *)(uintptr_t)(first == asked() && thread_id() == first && first != (uint32_t)getpid());
}

TEST(a_thread_knows_its_number)
{
    pthread_t thread;
    void *is_right = NULL;
    assert_int_equal(thread_id(), asked());
    assert_int_equal(pthread_create(&thread, NULL, is_own, NULL), 0);
    assert_int_equal(pthread_join(thread, &is_right), 0);
    assert_non_null(is_right);
    assert_int_equal(thread_id(), asked());
}

TEST(a_forked_child_has_another)
{
    int status = 0;
    assert_int_equal(thread_id(), asked());
    pid_t child = fork();
    if (child == 0)
        _exit(thread_id() == asked() ? 0 : 1);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
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
