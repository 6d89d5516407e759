/*
 * What the tests of `cufence replay` share: making a bundle with the stories of second_launch.h, and replaying it. Include it
 * once.
 */
#pragma once

#include "second_launch.h"
#include "support/shell.h"

static char bundle[128]; /* of this test, in its folder */

/* The options that save in this test's folder, and more. */
static inline const char *saving(const char *more)
{
    static char options[192];
    snprintf(options, sizeof options, "keep=%s%s", folder, more);
    return options;
}

/* Runs a story that makes a bundle, and says what the patterns demand. */
#define make_bundle(story, ...) make_only_bundle(story, PATTERNS(__VA_ARGS__))
static inline void make_only_bundle(void (*story)(void), const char *const *patterns)
{
    SUCCEEDS("rm -rf fault-*");
    expect_said(story, patterns);
    SUCCEEDS("ls -d $PWD/fault-*");
    assert_int_equal(count_in(text, "\n"), 1);
    snprintf(bundle, sizeof bundle, "%.*s", (int)strcspn(text, "\n"), text);
}

#define expect_replay(arguments, status, ...)                                                                                  \
    expect_end(run_shell("%s replay %s %s", CUFENCE_CLI, arguments, bundle), status, PATTERNS(__VA_ARGS__))
