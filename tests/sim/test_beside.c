/* Slack watch under the preload library: the report of a write next to a buffer, and the launches that may have done it. */
#include "guarded.h"

TEST_WITH(one_launch_is_derived, NULL, finish)
{
    expect_every_way("beside async -4 0", "slack=on", FAULTED, "context: CUDA_SUCCESS\n",
                     "slack WRITE: 4 bytes changed, 4 bytes before the start of buffer #2", "found      00 00 80 3f ",
                     "as 4-byte values: 1.0\n", "given to   store<<<(1,1,1), (1,1,1)>>>", "derived\n",
                     "SUMMARY: cufence: slack write: 4 bytes changed, 4 bytes before");
}

TEST_WITH(several_are_candidates, NULL, finish)
{
    run_guarded(&by_dlsym, "beside async 1000 3", "slack=on", FAULTED, "context: CUDA_SUCCESS\n");
    expect_err("slack WRITE: 4 bytes changed, 0 bytes past the end of buffer #2");
    if (count_in(last.err, "store<<<(1,1,1)") != 4 || count_in(last.err, "candidate\n") != 4)
        complain("four candidates", "");
}

TEST_WITH(memory_of_malloc_is_watched, NULL, finish)
{
    run_guarded(&by_dlsym, "beside plain -4 0", "slack=on", FAULTED, "context: CUDA_SUCCESS\n");
    expect_err("slack WRITE: 4 bytes changed, 4 bytes before the start of buffer #2");
    run_guarded(&by_dlsym, "beside plain 0 0", "slack=on", 0, "context: CUDA_SUCCESS\n");
    expect_silence();
}

TEST_WITH(a_reset_is_an_end_too, NULL, finish)
{
    run_guarded(&by_dlsym, "beside_reset", "slack=on", FAULTED, "reset: CUDA_SUCCESS\n");
    expect_err("slack WRITE: 4 bytes changed, 4 bytes before the start of buffer #1");
}

TEST_WITH(a_synchronised_stream_is_idle, NULL, finish)
{
    run_guarded(&by_dlsym, "idle", "slack=on", 0, "busy: hardly ever\n");
}

TEST_WITH(status_and_on_fault, NULL, finish)
{
    run_guarded(&by_dlsym, "beside async -4 0", "slack=on,on_fault=error/0", 0, "context: CUDA_SUCCESS\n");
    run_guarded(&by_dlsym, "beside async -4 0", "slack=on,on_fault=abort", FAULTED, "context: CUDA_SUCCESS\n");
}

/* Exactly the launches while the bytes were poisoned, however many come right before and after. */
TEST_WITH(poisoned_bytes, NULL, finish)
{
    run_guarded(&by_dlsym, "poison stale", "", FAULTED, "context: CUDA_SUCCESS\n");
    expect_err("WRITE to poisoned memory: 4 bytes changed, from byte 12 of the 4000 poisoned ones on, in buffer #1",
               "given to   store<<<(1,1,1), (1,1,1)>>>", "derived\n");
    if (strstr(last.err, "add_one"))
        complain("no launch of another time", "add_one");
    run_guarded(&by_dlsym, "poison right", "", 0, "context: CUDA_SUCCESS\n");
    expect_silence();
    run_guarded(&by_dlsym, "poison right async", "uaf=strict", 0, "context: CUDA_SUCCESS\n");
    expect_silence();
}

TEST_WITH(json, NULL, finish)
{
    unlink("beside.json");
    run_guarded(&by_dlsym, "beside async -4 0", "slack=on,json=beside.json", FAULTED, "context: CUDA_SUCCESS\n");
    json_t *found = finding_in("beside.json");
    json_t *slack = json_object_get(found, "slack");
    assert_string_equal(json_string_value(json_object_get(found, "kind")), "slack write");
    assert_string_equal(json_string_value(json_object_get(slack, "found")), "0000803f");
    assert_int_equal(json_integer_value(json_object_get(slack, "changed")), 4);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(slack, "launches"), "total")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(found, "buffer"), "id")), 2);
    json_decref(found);
}

TEST_CONCURRENTLY
