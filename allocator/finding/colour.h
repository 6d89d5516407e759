/*
 * Adds colours to a text report, for a terminal. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_COLOUR_H
#define CUFENCE_FINDING_COLOUR_H

/* Returns the text of finding_text() with escape sequences: highlights the answer, the source line and the certainties, and
 * dims the prefix. The text is malloc'ed (the caller frees it); NULL if out of host memory. */
char *colour_text(const char *text);

#endif
