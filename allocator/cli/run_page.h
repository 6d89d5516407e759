/*
 * `cufence run --html` and `--sarif`: documents of everything that the program's processes report, there from its start.
 *
 * Thread safety: none; one thread does all this.
 */
#ifndef CUFENCE_CLI_RUN_PAGE_H
#define CUFENCE_CLI_RUN_PAGE_H

#include "outputs.h"

#include <limits.h>

struct page {
    struct outputs outputs;
    struct collected begun; /* what was run */
    char file[PATH_MAX];    /* one for all processes: each report is appended with one write */
};

/* Writes the documents, without findings, and makes the file for the reports, which the processes find in the environment.
 * Called before the program runs. Returns 0, or the exit status after a message. */
int page_open(struct page *page, char *const *command);

/* Writes the documents anew if the program has run, and removes the file for the reports. */
void page_close(struct page *page, int has_run);

#endif
