/* Which saved launch `cufence replay FOLDER` means: the folder's own, or one in it. */
#include "command_line.h"
#include "replay.h"

#include "base/text.h"
#include "finding/finding.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LISTED = 20 };
#define MOST_INPUT ((size_t)16 << 20)

static int open_input(const char *folder, const char *name)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s/" BUNDLE_INPUT, folder, name);
    return length < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
}

/* Whether the folder has the list of a bundle, or its buffers: then it is one, whole or not. */
static int is_bundle(const char *folder)
{
    char path[PATH_MAX];
    struct stat status;
    int input = open_input(folder, ".");
    if (input >= 0)
        close(input);
    return input >= 0 ||
           (snprintf(path, sizeof path, "%s/" BUNDLE_FOLDER, folder) < (int)sizeof path && stat(path, &status) == 0);
}

/* "  faults/fault-42-1  row_sums", names that a stranger may have made. */
static void list_bundle(const char *folder, const char *name)
{
    struct loaded text = {0};
    struct problem ignored;
    struct bundle *bundle = NULL;
    char kernel[128] = "";
    if (loaded_open(open_input(folder, name), MOST_INPUT, &text, &ignored))
        bundle_read(text.at, text.size, &bundle, &ignored);
    loaded_forget(&text);
    if (bundle)
        finding_kernel_of(bundle->symbol, kernel, sizeof kernel);
    bundle_free(bundle);
    fprintf(stderr, "  %s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/");
    text_put(stderr, name);
    fputs(kernel[0] ? "  " : "", stderr);
    text_put(stderr, kernel);
    fputc('\n', stderr);
}

static int is_inside(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* Keeps the names of bundles, and returns how many there are. */
static int keep_bundles(const char *folder, struct dirent **entries, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int input = open_input(folder, entries[i]->d_name);
        if (input < 0) {
            free(entries[i]);
            continue;
        }
        close(input);
        entries[kept++] = entries[i];
    }
    return kept;
}

int replay_choose(const char *given, char path[PATH_MAX])
{
    struct dirent **entries = NULL;
    int status = 0, found = is_bundle(given) ? 0 : scandir(given, &entries, is_inside, versionsort);
    int count = found > 0 ? keep_bundles(given, entries, found) : 0;
    snprintf(path, PATH_MAX, "%s", given);
    if (count == 1 && snprintf(path, PATH_MAX, "%s/%s", given, entries[0]->d_name) < PATH_MAX)
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
