/* The hash kernel on the GPU against its definition, in buffers of cufence's. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "story.h"
#include "support/hash_cases.h"

static int tell_hashes(void)
{
    static struct hash_bench bench;
    bench.memory = (CUdeviceptr)story_buffer("memory", HASH_BYTES, NULL);
    bench.sums = (CUdeviceptr)story_buffer("sums", HASH_SUMS * sizeof(uint64_t), NULL);
    story_check(hash_set_up(&bench) && hash_agrees_everywhere(&bench), "%s", bench.problem);
    return 0;
}

TEST(the_kernel_agrees_with_the_definition)
{
    const struct story *story = story_run("", tell_hashes);
    if (story->exit_status != 0)
        fail_msg("status %d, signal %d: %s", story->exit_status, story->signal, story->stderr_text);
}

int main(int argc, char **argv)
{
    story_require_gpu();
    return test_run(argc, argv);
}
