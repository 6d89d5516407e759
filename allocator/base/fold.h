/*
 * Folds text for a terminal that is narrower than its lines. Files and pipes get the lines whole, to be searched.
 * Thread safety: any thread.
 */
#ifndef CUFENCE_BASE_FOLD_H
#define CUFENCE_BASE_FOLD_H

/* Returns the columns of the terminal behind a descriptor; 0 if it is none, its size is unknown, or it has fewer than 40. */
int fold_columns(int fd);

/*
 * Returns malloc'ed text whose lines are folded at blanks to `columns`; NULL if out of host memory. A folded line goes on
 * under its last column of text, behind the same "==pid== ". A certainty at the end of a line (" exact") is moved to the
 * right edge. A hint or note that the report has already broken into lines is broken anew. Words are never cut, and
 * escape sequences for colours take no columns.
 */
char *fold_text(const char *text, int columns);

#endif
