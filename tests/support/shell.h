/* Command lines in the folder of folder.h, and what they print. Include it once. */
#ifndef CUFENCE_TESTS_SHELL_H
#define CUFENCE_TESTS_SHELL_H

#include "support/folder.h"

#include <regex.h>
#include <stdarg.h>
#include <sys/wait.h>

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
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NEWLINE | REG_NOSUB), 0);
    int found = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return found;
}

#define SAYS(pattern)                                                                                                          \
    do {                                                                                                                       \
        if (!has(pattern))                                                                                                     \
            fail_msg("no '%s' in:\n%s", pattern, text);                                                                        \
    } while (0)

#endif
