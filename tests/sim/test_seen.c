/* What a correct program notices of cufence. */
#include "guarded.h"

#include <time.h>

static void the_process_ends_with_the_programs_last_thread(void **state)
{
    (void)state;
    expect_the_same("main_leaves alone", NULL, 0, "goodbye\n");
    expect_the_same("main_leaves thread", NULL, 0, "the other thread goes on\ngoodbye\n");
    expect_the_same("main_leaves exit", NULL, 3, "the other thread goes on\ngoodbye\n");
    expect_the_same("main_leaves signal", NULL, 128 + SIGTERM, "the other thread goes on\n");
}

static void a_kernel_that_waits_for_the_host_is_not_waited_for(void **state)
{
    (void)state;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    run(&by_dlsym, "busy_end", PRELOAD, NULL, NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    expect_status(&by_dlsym, "busy_end", 0);
    expect_in(&by_dlsym, "busy_end", last.err, "the device was still working 1000 ms after the program's end");
    if (end.tv_sec - begin.tv_sec > 5) /* of the 10 that the kernel waits at most */
        complain(&by_dlsym, "busy_end", "it takes too long", "about a second");
}

static void its_threads_sleep_while_the_program_does(void **state)
{
    (void)state;
    static const char *const settings[] = {NULL, "uaf=strict", "uaf=off,slack=off"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        run(&by_dlsym, "seen 20 60", PRELOAD, settings[i], NULL);
        expect_status(&by_dlsym, "seen", 0);
        expect_in(&by_dlsym, "seen", last.err, "threads of cufence 2, ");
        expect_in(&by_dlsym, "seen", last.err, "wake-ups 0 ");
    }
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_teardown(name, finish)
    const struct CMUnitTest tests[] = {
        TEST(the_process_ends_with_the_programs_last_thread),
        TEST(its_threads_sleep_while_the_program_does),
        TEST(a_kernel_that_waits_for_the_host_is_not_waited_for),
    };
    return run_concurrently(argc, argv, tests, sizeof tests / sizeof *tests);
}
