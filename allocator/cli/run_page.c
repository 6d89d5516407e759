#include "cli/run_page.h"

#include "arguments.h"
#include "cli.h"
#include "faces.h"

#include "base/env.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CANNOT_RUN = 126 };

#define complain(status, ...) arguments_complain("run", status, __VA_ARGS__)

/* ---- the reports of the program's processes ---- */

static int make_reports(struct page *page)
{
    const char *parent = env_get("TMPDIR");
    size_t used = 0;
    int length = snprintf(page->file, sizeof page->file, "%s/cufence-run-XXXXXX", parent && *parent ? parent : "/tmp");
    if (strchr(page->file, ',') || length >= (int)sizeof page->file)
        return complain(CANNOT_RUN, "TMPDIR=%s cannot hold the reports: its name has a comma, or is too long", parent);
    int file = mkostemp(page->file, O_CLOEXEC);
    if (file < 0)
        return complain(CANNOT_RUN, "no file for reports: %s: %s; set TMPDIR to a folder that can be written", page->file,
                        strerror(errno));
    close(file);
    for (const char *at = page->file; *at; at++) {
        if (*at == '%')
            page->option[used++] = '%';
        page->option[used++] = *at;
    }
    page->option[used] = '\0';
    return 0;
}

/* Opens the page before the program runs, and leaves what is there: the program may not be one. */
static FILE *open_page(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
    if (file >= 0 && !out)
        close(file);
    return out;
}

/* Removes a page that has not been written. */
static void close_page(const char *path, FILE *out)
{
    struct stat found;
    if (out && fstat(fileno(out), &found) == 0 && S_ISREG(found.st_mode) && found.st_size == 0)
        unlink(path);
    if (out)
        fclose(out);
}

static void write_page(const struct page *page)
{
    const char *path = page->path;
    FILE *out = page->out;
    struct collected collected = {0};
    errno = 0;
    int is_well = collected_read(&collected, "run", page->file);
    if (ftruncate(fileno(out), 0) != 0)
        errno = 0; /* a pipe */
    is_well = face_html(&collected, out) && !ferror(out) && fflush(out) == 0 && is_well;
    if (!is_well)
        complain(0, "--html %s: %s", path, errno ? strerror(errno) : "some reports are missing");
    else
        complain(0, "%s: %zu finding%s", path, collected.count, collected.count == 1 ? "" : "s");
    collected_free(&collected);
}

/* ---- all of it ---- */

int page_open(struct page *page, const char *path)
{
    page->path = path;
    page->out = NULL;
    int refusal = make_reports(page);
    if (refusal)
        return refusal;
    page->out = open_page(path);
    if (page->out)
        return 0;
    refusal = complain(CLI_USAGE, "--html %s: %s", path, strerror(errno));
    page_close(page, 0);
    return refusal;
}

void page_close(struct page *page, int has_run)
{
    if (has_run)
        write_page(page);
    close_page(page->path, page->out);
    unlink(page->file);
}
