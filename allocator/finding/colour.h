/*
 * A text report in colours, for a terminal. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_COLOUR_H
#define CUFENCE_FINDING_COLOUR_H

/* The text of finding_text() with escape sequences: the answer, the source line and the certainties stand out, the prefix steps back.
 * Returns malloc'ed text (the caller frees it), NULL when the host is out of memory. */
char *colour_text(const char *text);

#endif
