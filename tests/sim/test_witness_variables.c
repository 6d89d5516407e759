/* Variables of the module in the second launch and in its replay, on the simulated device. */
#include "replayed.h"

static void tell_variable(void)
{
    fault_by_variable("explain=rerun", NULL);
}

/* Only the variable leads to the buffer. */
TEST(test_set)
{
    expect_said(tell_variable, (const char *[]){PAST_THE_END, THREAD_PAST_THE_END, WRITTEN_PAST_THE_END, "!null", NULL});
}

static void tell_unread(void)
{
    fault_by_variable("explain=rerun", "cuMemcpyDtoHAsync");
}

/* Without its value the kernel meets a null pointer, which says nothing about the fault. */
TEST(test_unread)
{
    expect_said(tell_unread, (const char *[]){"illegal memory access by a WRITE",
                                              "target: the kernel uses this variable of its", "!null", "!thread \\(", NULL});
}

static void keep_variable(void)
{
    static char options[192];
    snprintf(options, sizeof options, "keep=replay=%s", folder);
    fault_by_variable(options, NULL);
}

TEST(test_replayed)
{
    free(make_bundle(keep_variable));
    run_shell("grep -q '\"name\": *\"target\"' %s/scene.json", bundle);
    setenv("SIM_TEST_VARIABLE", "target", 1);
    expect_replay("", 86, "0 bytes past the end of buffer #1");
    clean();
}
