/* The reports of several processes and modes. */
#include "hunt.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* "end.4242.json" */
static int is_of_mode(const char *name, unsigned mode)
{
    static const char end[] = ".json";
    size_t length = strlen(name), prefix = strlen(modes[mode].name);
    return length > prefix + sizeof end && !strncmp(name, modes[mode].name, prefix) && name[prefix] == '.' &&
           !strcmp(name + length - strlen(end), end);
}

void merged_read(struct collected *merged, const char *folder, unsigned mode)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    merged->tag = mode;
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX + 256];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (is_of_mode(entries[i]->d_name, mode))
            collected_read(merged, NULL, path);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

int merged_is_any(const char *folder, unsigned mode)
{
    int is_any = 0;
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && !is_any && (entry = readdir(entries));)
        is_any = is_of_mode(entry->d_name, mode);
    if (entries)
        closedir(entries);
    return is_any;
}

static size_t count_of(const struct collected_finding *list, size_t length, unsigned mode)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += (list[i].tags >> mode) & 1;
    return count;
}

size_t merged_by(const struct collected *merged, unsigned mode)
{
    return count_of(merged->findings, merged->count, mode);
}

size_t merged_known_by(const struct collected *merged, unsigned mode)
{
    return count_of(merged->known, merged->known_count, mode);
}
