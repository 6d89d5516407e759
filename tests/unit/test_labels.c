/* Labels: nested, stored once, bounded, and an error if out of host memory. */
#include "support/test.h"

#include "stacks/labels.h"

#include "failing_malloc.h"

TEST(labels_nest)
{
    assert_null(label_current());
    assert_int_equal(label_push("outer"), CUFENCE_OK);
    const char *outer = label_current();
    assert_int_equal(label_push("inner"), CUFENCE_OK);
    assert_string_equal(label_current(), "inner");
    assert_int_equal(label_push("outer"), CUFENCE_OK);
    assert_ptr_equal(label_current(), outer);
    for (int i = 0; i < 3; i++)
        assert_int_equal(label_pop(), CUFENCE_OK);
    assert_null(label_current());
    assert_int_equal(label_pop(), CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_int_equal(label_push(NULL), CUFENCE_ERROR_INVALID_ARGUMENT);
}

TEST(no_deeper_than_said)
{
    for (int i = 0; i < LABEL_DEPTH; i++)
        assert_int_equal(label_push("deep"), CUFENCE_OK);
    assert_int_equal(label_push("deeper"), CUFENCE_ERROR_INVALID_ARGUMENT);
    for (int i = 0; i < LABEL_DEPTH; i++)
        assert_int_equal(label_pop(), CUFENCE_OK);
}

/* What a buffer's label has no room for is not kept. */
TEST(a_long_label_is_cut)
{
    char text[2 * LABEL_BYTES];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_int_equal(label_push(text), CUFENCE_OK);
    const char *first = label_current();
    assert_int_equal(strlen(first), LABEL_BYTES - 1);
    text[LABEL_BYTES - 1] = 'y';
    assert_int_equal(label_push(text), CUFENCE_OK);
    assert_ptr_equal(label_current(), first);
    label_pop();
    label_pop();
}

/* More than the table has room for at first, so that it grows in between. */
TEST(malloc_may_fail_at_every_position)
{
    for (int i = 0; i < 1000; i++) {
        char text[32];
        cufence_status status = CUFENCE_OK;
        snprintf(text, sizeof text, "scarce %d", i);
        for (long position = 0;; position++) {
            fail_malloc_at(position);
            status = label_push(text);
            int has_failed = malloc_has_failed();
            fail_malloc_at(-1);
            if (!has_failed)
                break;
            assert_int_equal(status, CUFENCE_ERROR_OUT_OF_MEMORY);
            assert_null(label_current());
        }
        assert_int_equal(status, CUFENCE_OK);
        assert_string_equal(label_current(), text);
        label_pop();
    }
}

/* The last of the tests: afterwards there is no room. */
TEST(a_label_a_step_is_bounded)
{
    char text[32];
    assert_int_equal(label_push("known"), CUFENCE_OK);
    for (unsigned i = 0; i <= LABEL_TEXTS; i++) {
        snprintf(text, sizeof text, "step %u", i);
        assert_int_equal(label_push(text), CUFENCE_OK);
        if (i < LABEL_TEXTS)
            assert_int_equal(label_pop(), CUFENCE_OK);
    }
    assert_string_equal(label_current(), LABEL_OF_TOO_MANY);
    assert_true(strlen(LABEL_OF_TOO_MANY) < LABEL_BYTES);
    label_pop();
    assert_int_equal(label_push("known"), CUFENCE_OK);
    assert_string_equal(label_current(), "known");
}
