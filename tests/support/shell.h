/* Command lines in the folder of folder.h, and what they print. Include it once. */
#pragma once

#include "support/folder.h"
#include "support/unfold.h"

static char text[1 << 16];

/* Runs a command line in the folder; `text` gets what it prints. Returns the exit status. */
static inline int run_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline int run_shell(const char *format, ...)
{
    char command[4096];
    size_t length = (size_t)snprintf(command, sizeof command, "cd %s && { ", folder);
    va_list list;
    va_start(list, format);
    length += (size_t)vsnprintf(command + length, sizeof command - length, format, list);
    va_end(list);
    snprintf(command + length, sizeof command - length, "; } 2>&1");
    FILE *out = popen(command, "r");
    assert_non_null(out);
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    int status = pclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline int has(const char *pattern)
{
    return has_pattern(text, pattern);
}

/* Fails unless a command has ended with that status, and what it has printed has the patterns (unfold.h). */
static inline void expect_end(int got, int status, const char *const *patterns)
{
    const char *wrong = wrong_pattern(text, patterns);
    if (got == status && !wrong)
        return;
    fprintf(stderr, "%s\n", text); /* whole: a message of cmocka has 1,024 letters */
    fail_msg("status %d, not %d, or '%s' in the text above", got, status, wrong ? wrong : "");
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

#define SAYS(...) expect_end(0, 0, PATTERNS(__VA_ARGS__))
#define SUCCEEDS(...) expect_end(run_shell(__VA_ARGS__), 0, PATTERNS(""))

/* The mode of a file in the folder; 0 if it is not there. */
static inline mode_t mode_of(const char *name)
{
    struct stat file;
    return stat(in_folder(name), &file) == 0 ? file.st_mode & 07777 : 0;
}
