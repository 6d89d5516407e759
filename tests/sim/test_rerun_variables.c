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
    fault_by_variable(saving(""), NULL);
}

TEST(test_replayed)
{
    make_bundle(keep_variable, "");
    SUCCEEDS("grep -q '\"name\": *\"target\"' %s/launch.json", bundle);
    setenv("SIM_TEST_VARIABLE", "target", 1);
    expect_replay("", 86, "0 bytes past the end of buffer #1");
}

TEST_GROUP(make_folder, remove_folder)
