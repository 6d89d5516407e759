/* Native stacks of allocations: walked with what is known of each return address, interned, and read later. */
#include "support/test.h"

#include "stacks/native.h"
#include "unwind_code.h"

#include <cufence.h>

#include <dlfcn.h>

#define MOST 24
#define NOINLINE __attribute__((noinline))

static _Thread_local volatile int sink; /* keeps the calls from being jumps */

/* What is captured at one place in two ways. */
struct both {
    uint32_t number;
    struct stack stack;
};

NOINLINE static void take_both(void *argument)
{
    struct both *both = argument;
    both->number = stack_capture_interned();
    stack_capture(&both->stack);
    sink++;
}

NOINLINE static struct both taken_through(void (*function)(unwind_callee *, void *))
{
    struct both both;
    function(take_both, &both);
    sink++;
    return both;
}

/* The unwinder, which interprets everything anew, is what the walk is measured by. */
TEST(the_walk_finds_what_the_unwinder_finds)
{
    void (*const shapes[])(unwind_callee *, void *) = {code_small, code_with_full_registers, code_with_alloca,
                                                       code_with_large_frame, code_with_realigned_frame};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct stack_frame walked[MOST], unwound[MOST];
        struct both both = taken_through(shapes[i]);
        assert_int_not_equal(both.number, 0);
        size_t count = stack_interned_frames(both.number, walked, MOST);
        size_t other = native_frames(&both.stack, libdw_open(), unwound, MOST);
        assert_true(other >= 3); /* taken_through() has more on the stack than is copied */
        assert_true(count >= 4);
        for (size_t k = 0; k < count && k < other; k++) {
            assert_string_equal(walked[k].function, unwound[k].function);
            assert_string_equal(walked[k].module, unwound[k].module);
            assert_int_equal(walked[k].is_python, 0);
            if (k > 0)
                assert_int_equal(walked[k].offset, unwound[k].offset);
        }
        assert_string_equal(walked[0].function, "take_both");
        assert_string_equal(walked[2].function, "taken_through");
        assert_string_equal(walked[count - 1].function, "main"); /* not what starts a program */
    }
}

TEST(one_place_is_one_number_and_two_are_two)
{
    uint32_t numbers[3];
    for (volatile int i = 0; i < 3; i++) { /* not unrolled: one place */
        struct both both;
        code_small(take_both, &both);
        numbers[i] = both.number;
    }
    struct both elsewhere;
    code_small(take_both, &elsewhere);
    assert_int_equal(numbers[1], numbers[0]);
    assert_int_equal(numbers[2], numbers[0]);
    assert_int_not_equal(elsewhere.number, numbers[0]);
}

TEST(the_walk_goes_past_a_frame_larger_than_a_captured_stack)
{
    struct stack_frame frames[MOST];
    struct both both = taken_through(code_with_huge_frame);
    assert_true(stack_interned_frames(both.number, frames, MOST) >= 3);
    assert_string_equal(frames[1].function, "code_with_huge_frame");
    assert_string_equal(frames[2].function, "taken_through");
}

static void *take_in_thread(void *both)
{
    code_small(take_both, both);
    sink++;
    return NULL;
}

TEST(the_walk_ends_where_a_thread_began)
{
    struct both both;
    struct stack_frame frames[MOST];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_in_thread, &both), 0);
    pthread_join(thread, NULL);
    size_t count = stack_interned_frames(both.number, frames, MOST);
    assert_true(count >= 3 && count <= 5);
    assert_string_equal(frames[2].function, "take_in_thread");
}

/* ---- libraries ---- */

NOINLINE static void *take_in_library(const char *path, struct both *both)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    void *symbol = dlsym(library, "library_outer");
    assert_non_null(symbol);
    unwind_library_outer *outer;
    memcpy(&outer, &symbol, sizeof outer);
    outer(take_both, both);
    sink++;
    return library;
}

/* Its names can't be found any more, and another library's at the same address would be wrong. */
TEST(an_unloaded_librarys_frames_keep_module_and_offset)
{
    struct both first, second;
    struct stack_frame there[MOST], gone[MOST];
    void *library = take_in_library(UNWIND_LIBRARY, &first);
    dlclose(library);
    library = take_in_library(UNWIND_OTHER, &second); /* the same code, most likely where the first was */
    assert_int_not_equal(second.number, first.number);
    assert_true(stack_interned_frames(second.number, there, MOST) >= 4);
    assert_string_equal(there[2].module, "libunwind_other.so");
    assert_string_equal(there[2].function, "library_outer");
    for (int again = 0; again < 2; again++) { /* the second time from what is kept */
        assert_true(stack_interned_frames(first.number, gone, MOST) >= 4);
        assert_string_equal(gone[0].function, "take_both");
        assert_string_equal(gone[2].function, "");
        assert_string_equal(gone[2].module, "libunwind_library.so");
        assert_int_equal(gone[2].offset, there[2].offset);
    }
    char text[4096], expected[64];
    assert_true(cufence_stack(first.number, text, sizeof text) > 1);
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
        struct both here, there;
        code_small(take_both, &here);
        code_with_large_frame(take_both, &there);
        if (i > 0 && (here.number != numbers[0] || there.number != numbers[1]))
            return argument;
        numbers[0] = here.number;
        numbers[1] = there.number;
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
