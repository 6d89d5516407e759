/* A driver that is newer than the table of hooks: what it alone knows is passed through, and said. */
#include "guarded.h"

TEST_WITH(the_driver_has_forms_that_nobody_knows, NULL, finish)
{
    expect_run(&by_dlsym, "newer_forms", NO_PRELOAD, NULL, "newer=13020", 0, "known: within a page, newer: within a page\n");
}

TEST_WITH(a_form_newer_than_the_table_is_passed_through_and_said_once, NULL, finish)
{
    static const char *const programs[] = {"program_dlsym", "program_proc", "program_linked"};
    static const char *const functions[] = {"cuMemAlloc", "cuMemFree", "cuStreamSynchronize"};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        const struct way way = {programs[i], NULL};
        expect_run(&way, "newer_forms", PRELOAD, NULL, "newer=13020", 0, "known: at a page's end, newer: within a page\n");
        assert_int_equal(count_in(last.err, "newer than this cufence"), 3);
        for (size_t j = 0; j < 3; j++) {
            char line[64];
            snprintf(line, sizeof line, "cufence: this driver's %s ", functions[j]);
            assert_int_equal(count_in(last.err, line), 1);
        }
    }
}
