/* Variables of the module in the second launch and in its replay, on the simulated device. */
#include "replayed.h"

/* Only the variable leads to the buffer. */
TELLS(set, PAST_THE_END, THREAD_PAST_THE_END, WRITTEN_PAST_THE_END, "!null")
{
    fault_by_variable("explain=rerun", NULL);
}

/* Without its value the kernel meets a null pointer, which says nothing about the fault. */
TELLS(unread, "illegal memory access by a WRITE", "target: the kernel uses this variable of its", "!null", "!thread \\(")
{
    fault_by_variable("explain=rerun", "cuMemcpyDtoHAsync");
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
