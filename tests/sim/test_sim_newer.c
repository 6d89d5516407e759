/* A driver that is newer than the table of hooks: what it alone knows is passed through, and said. */
#include "support/test.h"

static char said[65536]; /* stdout and stderr */

static int run(const char *program, const char *preload)
{
    char command[2048];
    snprintf(command, sizeof command,
             "env -u CUFENCE_DRIVER CUFENCE_SIM=newer=13020 LD_LIBRARY_PATH='%s' LD_PRELOAD='%s' '%s/%s' newer_forms 2>&1",
             LIBCUDA_FOLDER, preload, PROGRAMS_FOLDER, program);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    said[fread(said, 1, sizeof said - 1, output)] = '\0';
    int status = pclose(output);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static unsigned count_in(const char *text, const char *word)
{
    unsigned count = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        count++;
    return count;
}

TEST(the_driver_has_forms_that_nobody_knows)
{
    assert_int_equal(run("program_dlsym", ""), 0);
    assert_string_equal(said, "known: within a page, newer: within a page\n");
}

TEST(a_form_newer_than_the_table_is_passed_through_and_said_once)
{
    static const char *const programs[] = {"program_dlsym", "program_proc", "program_linked"};
    static const char *const functions[] = {"cuMemAlloc", "cuMemFree", "cuStreamSynchronize"};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        assert_int_equal(run(programs[i], PRELOAD), 0);
        assert_non_null(strstr(said, "known: at a page's end, newer: within a page\n"));
        assert_int_equal(count_in(said, "newer than this cufence"), 3);
        for (size_t j = 0; j < 3; j++) {
            char line[64];
            snprintf(line, sizeof line, "cufence: this driver's %s ", functions[j]);
            assert_int_equal(count_in(said, line), 1);
        }
    }
}
