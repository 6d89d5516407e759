/*
 * Runs values_story.c under `cufence run` in a folder of its own, on the simulated device.
 */
#ifndef VALUES_WORLD_H
#define VALUES_WORLD_H

#include "support/shell.h"

static inline void read_file(const char *name)
{
    run_shell("cat %s", name);
}

/* Runs stories of a program under `cufence run ARGUMENTS`; `text` gets what it prints. Returns the exit status. */
static inline int run_program(const char *program, const char *arguments, const char *stories)
{
    return run_shell("LD_LIBRARY_PATH=%s %s run %s -- %s %s", CUFENCE_RUN_DRIVER, CUFENCE_CLI, arguments, program, stories);
}

/* Fails unless `text` has the words, which are no patterns; one that begins with '!' must not be found. */
#define HAS(...) expect_words(0, 0, PATTERNS(__VA_ARGS__))
static inline void expect_words(int got, int status, const char *const *words)
{
    for (; *words; words++) {
        int is_unwanted = **words == '!';
        if ((strstr(text, *words + is_unwanted) != NULL) == is_unwanted)
            fail_msg("'%s' in:\n%s", *words, text);
    }
    if (got != status)
        fail_msg("status %d, not %d:\n%s", got, status, text);
}

/* Of values_story.c. */
#define expect(arguments, stories, status, ...)                                                                                \
    expect_words(run_program(CUFENCE_VALUES_STORY, arguments, stories), status, PATTERNS(__VA_ARGS__))

#endif
