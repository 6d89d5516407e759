#include "record.h"

#include "base/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_KEPT 1000000u

static char folder[1024]; /* "" if none */

cufence_status record_open(const struct options *options)
{
    return options_expand_path(options->record, folder, sizeof folder);
}

int record_is_wanted(void)
{
    return folder[0] != '\0';
}

void record_keep(const struct dump *dump, const struct dump *again, const struct fault_memory *memory,
                 const struct rerun_result *rerun, const char *device_name)
{
    static unsigned kept;
    char stem[1100], name[1200];
    char *snapshot = files_snapshot(memory, device_name, rerun);
    errno = 0;
    if (!files_make_folder(folder)) {
        files_complain(folder);
        free(snapshot);
        return;
    }
    int is_ok;
    do { /* process ids repeat, in containers at every start */
        snprintf(stem, sizeof stem, "%s/fault-%d-%u", folder, (int)getpid(), ++kept);
        snprintf(name, sizeof name, "%s.snapshot.json", stem);
        is_ok = files_put_text(name, snapshot);
    } while (!is_ok && errno == EEXIST && kept < MOST_KEPT);
    size_t length = strlen(stem);
    if (is_ok && again) {
        snprintf(stem + length, sizeof stem - length, ".rerun");
        is_ok = files_put_dump(name, sizeof name, stem, again->bytes, again->size);
        stem[length] = '\0';
    }
    if (is_ok && files_put_dump(name, sizeof name, stem, dump->bytes, dump->size))
        output_note("kept for `cufence explain`: %s", name);
    else
        files_complain(name);
    free(snapshot);
}
