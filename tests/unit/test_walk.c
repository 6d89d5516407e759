/* Native stacks of allocations: walked with what is known of each return address, interned, and read later. */
#include "support/test.h"

#include "stacks/native.h"
#include "unwind_load.h"

#include <cufence.h>

#define MOST 24
#define NOINLINE __attribute__((noinline))

static _Thread_local volatile int sink; /* keeps the calls from being jumps */

NOINLINE static void take(void *number)
{
    *(uint32_t *)number = stack_capture_interned();
    sink++;
}

TEST(one_place_is_one_number_and_two_are_two)
{
    uint32_t numbers[3];
    for (volatile int i = 0; i < 3; i++) { /* not unrolled: one place */
        code_small(take, &numbers[i]);
    }
    uint32_t elsewhere;
    code_small(take, &elsewhere);
    assert_int_equal(numbers[1], numbers[0]);
    assert_int_equal(numbers[2], numbers[0]);
    assert_int_not_equal(elsewhere, numbers[0]);
}

/* ---- libraries ---- */

NOINLINE static void take_in_library(const char *path, uint32_t *number)
{
    library_function(path)(take, number);
    sink++;
}

/* Its names can't be found any more, and another library's at the same address would be wrong. */
TEST(an_unloaded_librarys_frames_keep_module_and_offset)
{
    uint32_t first, second;
    struct stack_frame there[MOST], gone[MOST];
    take_in_library(UNWIND_LIBRARY, &first);
    dlclose(library);
    take_in_library(UNWIND_OTHER, &second); /* the same code, most likely where the first was */
    assert_int_not_equal(second, first);
    assert_true(stack_interned_frames(second, there, MOST) >= 4);
    assert_string_equal(there[2].module, "libunwind_other.so");
    assert_string_equal(there[2].function, "library_outer");
    for (int again = 0; again < 2; again++) { /* the second time from what is kept */
        assert_true(stack_interned_frames(first, gone, MOST) >= 4);
        assert_string_equal(gone[0].function, "take");
        assert_string_equal(gone[2].function, "");
        assert_string_equal(gone[2].module, "libunwind_library.so");
        assert_int_equal(gone[2].offset, there[2].offset);
    }
    char text[4096], expected[64];
    assert_int_equal(cufence_stack(first, text, &(size_t){sizeof text}), CUFENCE_OK);
    snprintf(expected, sizeof expected, "\n(libunwind_library.so+0x%llx)\n", (unsigned long long)gone[2].offset);
    assert_non_null(strstr(text, expected));
    assert_non_null(strstr(text, "main"));
    dlclose(library);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 20000 };

static void *take_often(void *argument)
{
    uint32_t *numbers = argument;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t here, there;
        code_small(take, &here);
        code_with_large_frame(take, &there);
        if (i > 0 && (here != numbers[0] || there != numbers[1]))
            return argument;
        numbers[0] = here;
        numbers[1] = there;
    }
    return numbers[0] == numbers[1] && numbers[0] ? argument : NULL;
}

TEST(many_places_at_once_have_their_own_numbers)
{
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS][2];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_often, numbers[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
        assert_int_equal(numbers[i][0], numbers[0][0]);
        assert_int_equal(numbers[i][1], numbers[0][1]);
    }
}
