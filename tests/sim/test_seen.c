/* What a correct program notices of cufence. */
#include "guarded.h"

#include <time.h>

TEST_WITH(the_process_ends_with_the_programs_last_thread, NULL, finish)
{
#ifndef __SANITIZE_THREAD__ /* with it, no process ends with its last thread, natively neither: a thread of its own goes on */
    expect_the_same("main_leaves alone", NULL, 0, "goodbye\n");
    expect_the_same("main_leaves nameless", NULL, 0, "goodbye\n");
    expect_the_same("main_leaves crowded", NULL, 0, "goodbye\n");
    expect_the_same("main_leaves thread", NULL, 0, "the other thread goes on\ngoodbye\n");
#endif
    expect_the_same("main_leaves exit", NULL, 3, "the other thread goes on\ngoodbye\n");
    expect_the_same("main_leaves signal", NULL, 128 + SIGTERM, "the other thread goes on\n");
}

TEST_WITH(it_does_so_where_no_thread_can_be_started, NULL, finish)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* as above */
#endif
    run(&by_dlsym, "main_leaves forbidden", PRELOAD, NULL, NULL);
    expect_status(0);
    expect_in(last.out, "goodbye\n");
}

TEST_WITH(a_kernel_that_waits_for_the_host_is_not_waited_for, NULL, finish)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    run(&by_dlsym, "busy_end", PRELOAD, NULL, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    expect_status(0);
    expect_err("the device was still working 1000 ms after the program's end");
    if (end.tv_sec - begin.tv_sec > 5) /* of the 10 that the kernel waits at most */
        complain("it takes too long", "about a second");
}

/* What "seen" says on stderr. */
struct seen {
    int threads, descriptors;
    long wakeups, resident, reserved; /* KiB */
};

static struct seen look(const char *preload, const char *settings)
{
    struct seen seen;
    run(&by_dlsym, "seen 20 60", preload, settings, NULL);
    const char *at = strstr(last.err, "threads of cufence ");
    if (!at ||
        sscanf(at, "threads of cufence %d, descriptors %d, wake-ups %ld after %*d ms, resident KiB %ld, reserved KiB %ld",
               &seen.threads, &seen.descriptors, &seen.wakeups, &seen.resident, &seen.reserved) != 5)
        complain("it says", "what it has seen");
    return seen;
}

static void expect_most(const char *what, long value, long most)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%ld at most, but are %ld", most, value);
    if (value > most)
        complain(what, wanted);
}

/* docs/how-it-works.md has these limits. */
TEST_WITH(it_takes_little_and_sleeps_while_the_program_does, NULL, finish)
{
    static const char *const settings[] = {NULL, "uaf=strict", "uaf=off,slack=off"};
    const struct seen without = look(NO_PRELOAD, NULL);
    char signals[sizeof last.out];
    strcpy(signals, last.out);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const struct seen with = look(PRELOAD, settings[i]);
        expect_status(0);
        expect_out(signals);
        expect_most("threads", with.threads, 3);
        expect_most("more descriptors", with.descriptors - without.descriptors, 32);
#if !defined(__SANITIZE_ADDRESS__) &&                                                                                          \
    !defined(__SANITIZE_THREAD__) /* they have memory of their own for each of the program's */
        expect_most("KiB more memory", with.resident - without.resident, 16 << 10);
#endif
        expect_most("wake-ups", with.wakeups, 0);
    }
}

TEST_CONCURRENTLY
