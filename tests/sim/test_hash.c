/* The hash kernel's host twin, and the definition itself. tests/gpu/test_hash.c asks the real one the same. */
#include "support/test.h"

#include "support/hash_cases.h"

static struct hash_bench bench;

static int set_up(void **state)
{
    CUcontext context;
    if (driver_load() != CUFENCE_OK || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&bench.memory, HASH_BYTES) != CUDA_SUCCESS ||
        cuMemAlloc(&bench.sums, HASH_SUMS * sizeof(uint64_t)) != CUDA_SUCCESS)
        return -1;
    return hash_set_up(&bench) ? 0 : -1;
}

TEST(known_texts_have_known_hashes)
{
    for (size_t i = 0; i < sizeof hash_known / sizeof hash_known[0]; i++)
        assert_int_equal(hash_by_definition((const uint8_t *)hash_known[i].text, strlen(hash_known[i].text)),
                         hash_known[i].hash);
}

TEST(every_size_and_alignment_agrees_with_the_definition)
{
    if (!hash_agrees_everywhere(&bench))
        fail_msg("%s", bench.problem);
}

/* Two words that change places, and a zero more, make another hash. */
TEST(order_and_length_count)
{
    static const uint64_t words[] = {1, 2, 0}, swapped[] = {2, 1, 0};
    assert_int_not_equal(hash_by_definition((const uint8_t *)words, 16), hash_by_definition((const uint8_t *)swapped, 16));
    assert_int_not_equal(hash_by_definition((const uint8_t *)words, 16), hash_by_definition((const uint8_t *)words, 17));
    assert_int_not_equal(hash_by_definition((const uint8_t *)&words[2], 1), hash_by_definition((const uint8_t *)&words[2], 2));
}

TEST_GROUP(set_up, NULL)
