/*
 * `cufence run --html`: at the program's end a page of everything that its processes reported.
 *
 * Thread safety: none; one thread does all this.
 */
#ifndef CUFENCE_CLI_RUN_PAGE_H
#define CUFENCE_CLI_RUN_PAGE_H

#include <limits.h>
#include <stdio.h>

struct page {
    const char *path;
    FILE *out;
    char file[PATH_MAX];       /* one for all processes: each report is appended with one write */
    char option[2 * PATH_MAX]; /* the same as the option json= takes it: a % is doubled */
};

/* Opens the page and the file for the reports, before the program runs. Returns 0, or the exit status after a message. */
int page_open(struct page *page, const char *path);

/* Writes the page if the program has run, and removes the file for the reports. */
void page_close(struct page *page, int has_run);

#endif
