/*
 * Runs values_story.c under `cufence run` in a folder of its own, on the simulated device.
 */
#pragma once

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

/* Of values_story.c. */
#define expect(arguments, stories, status, ...)                                                                                \
    expect_words(run_program(CUFENCE_VALUES_STORY, arguments, stories), status, PATTERNS(__VA_ARGS__))
