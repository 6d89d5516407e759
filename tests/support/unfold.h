#ifndef CUFENCE_TESTS_UNFOLD_H
#define CUFENCE_TESTS_UNFOLD_H

#include <stdio.h>
#include <string.h>

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

#endif
