/* Which saved launch `cufence replay FOLDER` means: the folder's own, or one in it. */
#include "command_line.h"
#include "replay.h"

#include "base/text.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LISTED = 20 };

static int is_bundle_in(const char *folder, const char *name, char path[PATH_MAX])
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX &&
           bundle_is(path, 1);
}

/* "  faults/fault-42-1  row_sums", names that a stranger may have made. */
static void list_bundle(const char *folder, const char *name)
{
    char path[PATH_MAX], kernel[128] = "";
    if (is_bundle_in(folder, name, path))
        bundle_kernel(path, kernel, sizeof kernel);
    fprintf(stderr, "  %s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/");
    text_put(stderr, name);
    fputs(kernel[0] ? "  " : "", stderr);
    text_put(stderr, kernel);
    fputc('\n', stderr);
}

/* Keeps the names of bundles, and returns how many there are. */
static int keep_bundles(const char *folder, struct dirent **entries, int count)
{
    int kept = 0;
    char path[PATH_MAX];
    for (int i = 0; i < count; i++)
        if (is_bundle_in(folder, entries[i]->d_name, path))
            entries[kept++] = entries[i];
        else
            free(entries[i]);
    return kept;
}

int replay_choose(const char *given, char path[PATH_MAX])
{
    struct dirent **entries = NULL;
    int status = 0, found = bundle_is(given, 1) ? 0 : scandir(given, &entries, NULL, versionsort);
    int count = found > 0 ? keep_bundles(given, entries, found) : 0;
    snprintf(path, PATH_MAX, "%s", given);
    if (count == 1 && is_bundle_in(given, entries[0]->d_name, path))
        fprintf(stderr, "cufence replay: using the only saved launch in %s\n", given);
    if (count > 1) {
        status = arguments_complain("replay", STATUS_USAGE, "%s holds %d saved launches; name one of them:", given, count);
        for (int i = 0; i < count && i < MOST_LISTED; i++)
            list_bundle(given, entries[i]->d_name);
        if (count > MOST_LISTED)
            fprintf(stderr, "  and %d more\n", count - MOST_LISTED);
    }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return status;
}
