#include "cli/run_page.h"

#include "arguments.h"
#include "cli.h"
#include "help.h"

#include "base/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define complain(status, ...) arguments_complain("run", status, __VA_ARGS__)

static int make_reports(struct page *page)
{
    const char *parent = env_get("TMPDIR");
    snprintf(page->file, sizeof page->file, "%s/cufence-run-XXXXXX", parent && *parent ? parent : "/tmp");
    int file = mkostemp(page->file, O_CLOEXEC);
    if (file < 0)
        return complain(STATUS_UNFIT, "no file for reports: %s: %s; set TMPDIR to a folder that can be written", page->file,
                        strerror(errno));
    close(file);
    return setenv("CUFENCE_COLLECT", page->file, 1) == 0 ? 0 : complain(STATUS_UNFIT, "no host memory");
}

int page_open(struct page *page, char *const *command)
{
    page->begun = (struct collected){.is_unfinished = 1};
    collected_begin(&page->begun, command);
    int refusal = make_reports(page);
    if (refusal == 0)
        refusal = outputs_open(&page->outputs);
    if (refusal == 0 && !outputs_write(&page->outputs, &page->begun))
        refusal = CLI_USAGE;
    if (refusal != 0)
        page_close(page, 0);
    return refusal;
}

static void write_documents(struct page *page)
{
    struct collected *all = &page->begun;
    char guarded[160];
    all->is_unfinished = 0;
    int is_whole = collected_read(all, "run", page->file);
    if (!outputs_write(&page->outputs, all) || !is_whole)
        complain(0, "some reports are missing from the documents");
    collected_say_guarded(all, guarded, sizeof guarded);
    for (int i = 0; i < OUTPUTS; i++)
        if (page->outputs.paths[i])
            complain(0, "%s: %zu finding%s%s", page->outputs.paths[i], all->count, all->count == 1 ? "" : "s", guarded);
}

void page_close(struct page *page, int has_run)
{
    if (has_run)
        write_documents(page);
    outputs_close(&page->outputs);
    collected_free(&page->begun);
    unlink(page->file);
}
