/* Patterns in what reports say. */
#pragma once

#include "support/test.h"

#include <regex.h>

/* Joins the lines that a report has folded: where it folds depends on how many digits the process number has. */
static inline void unfold(char *text)
{
    char *to = text;
    for (const char *from = text; *from;) {
        int folded = 0;
        if (*from == '\n')
            sscanf(from, "\n==%*u==%n", &folded);
        size_t blanks = folded ? strspn(from + folded, " ") : 0;
        from += blanks >= 14 ? (size_t)folded + blanks - 1 : 0; /* one blank stays */
        *to++ = *from++;
    }
    *to = 0;
}

/* Returns 1 if a line of the text has the pattern, as it is or unfolded. */
static inline int has_pattern(const char *text, const char *pattern)
{
    regex_t regex;
    char *unfolded = strdup(text);
    assert_non_null(unfolded);
    unfold(unfolded);
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NEWLINE | REG_NOSUB), 0);
    int found = regexec(&regex, text, 0, NULL, 0) == 0 || regexec(&regex, unfolded, 0, NULL, 0) == 0;
    regfree(&regex);
    free(unfolded);
    return found;
}

/* Returns the first of the patterns, up to NULL, that is not as it is to be: found, or, if it begins with '!', not found. */
static inline const char *wrong_pattern(const char *text, const char *const *patterns)
{
    for (; *patterns; patterns++) {
        int is_unwanted = **patterns == '!';
        if (has_pattern(text, *patterns + is_unwanted) == is_unwanted)
            return *patterns;
    }
    return NULL;
}
#define PATTERNS(...) ((const char *const[]){__VA_ARGS__, NULL})
