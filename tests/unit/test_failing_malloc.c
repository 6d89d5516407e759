/* The allocator that fails on demand, tested with calls of this program itself. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include <failing_malloc.h>

static void *by_malloc(void)
{
    return malloc(8);
}

static void *by_calloc(void)
{
    return calloc(2, 4);
}

static void *by_realloc(void)
{
    return realloc(NULL, 8);
}

static void *by_reallocarray(void)
{
    return reallocarray(NULL, 2, 4);
}

static void *by_aligned_alloc(void)
{
    return aligned_alloc(64, 64);
}

static void *by_posix_memalign(void)
{
    void *memory = NULL;
    int error = posix_memalign(&memory, 64, 64);
    return error == 0 ? memory : NULL;
}

static void *(*const ways[])(void) = {by_malloc, by_calloc, by_realloc, by_reallocarray, by_aligned_alloc, by_posix_memalign};
#define WAYS (sizeof ways / sizeof ways[0])

TEST(the_nth_call_fails_and_no_other)
{
    for (unsigned nth = 0; nth <= WAYS + 1; nth++) {
        void *memory[WAYS];
        fail_malloc(nth);
        for (unsigned i = 0; i < WAYS; i++)
            memory[i] = ways[i]();
        unsigned count = fail_malloc_count();
        fail_malloc(0);
        for (unsigned i = 0; i < WAYS; i++) {
            assert_int_equal(memory[i] == NULL, i + 1 == nth);
            free(memory[i]);
        }
        assert_int_equal(count, WAYS);
    }
}

TEST(a_failed_realloc_leaves_the_memory)
{
    char *memory = malloc(4);
    assert_non_null(memory);
    memcpy(memory, "abc", 4);
    fail_malloc(1);
    assert_null(realloc(memory, 1 << 20));
    char *larger = realloc(memory, 1 << 20);
    assert_non_null(larger);
    assert_string_equal(larger, "abc");
    free(larger);
}

TEST(calls_from_elsewhere_are_not_counted)
{
    fail_malloc(1);
    char *copy = strdup("allocated by the C library");
    unsigned count = fail_malloc_count();
    assert_non_null(copy);
    assert_int_equal(count, 0);
    fail_malloc(0);
    free(copy);
}

int main(int argc, char **argv)
{
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    return 77; /* its runtime takes the calls before the library can */
#endif
    return test_run(argc, argv);
}
