/* What a correct program notices of cufence. */
#include "guarded.h"

static void the_process_ends_with_the_programs_last_thread(void **state)
{
    (void)state;
    expect_the_same("main_leaves alone", NULL, 0, "goodbye\n");
    expect_the_same("main_leaves thread", NULL, 0, "the other thread goes on\ngoodbye\n");
    expect_the_same("main_leaves exit", NULL, 3, "the other thread goes on\ngoodbye\n");
    expect_the_same("main_leaves signal", NULL, 128 + SIGTERM, "the other thread goes on\n");
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_teardown(name, finish)
    const struct CMUnitTest tests[] = {
        TEST(the_process_ends_with_the_programs_last_thread),
    };
    return run_concurrently(argc, argv, tests, sizeof tests / sizeof *tests);
}
