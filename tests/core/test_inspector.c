/* The library without inspect/: the options that need it are an error, everything else works. */
#include "support/test.h"

#include <cufence.h>

TEST(options_that_need_it_are_refused)
{
    static const struct {
        const char *options, *says;
    } cases[] = {
        {"values=*", "values: this cufence was built without inspect/ (CUFENCE_INSPECT=OFF)"},
        {"nan=report", "nan: this cufence was built without inspect/ (CUFENCE_INSPECT=OFF)"},
        {"save_values=*=/tmp/cufence-saved", "save_values: this cufence was built without inspect/ (CUFENCE_INSPECT=OFF)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(cufence_init(cases[i].options), CUFENCE_ERROR_UNSUPPORTED);
        assert_string_equal(cufence_error_detail(), cases[i].says);
    }
}

TEST(buffers_are_guarded)
{
    void *pointer;
    cufence_description found = {.struct_size = sizeof found};
    (void)state;
    assert_int_equal(cufence_init(NULL), CUFENCE_OK);
    assert_int_equal(cufence_malloc(&pointer, 1000, 0, NULL), CUFENCE_OK);
    assert_int_equal(cufence_describe((char *)pointer + 1000, &found), CUFENCE_OK);
    assert_int_equal(found.buffer.size, 1000);
    assert_int_equal(cufence_free(pointer, NULL), CUFENCE_OK);
}
