#include "installation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int installation_find(const char *file, const char *const *folders, size_t count, const char *name, char path[PATH_MAX])
{
    char candidate[PATH_MAX];
    const char *slash = strrchr(file, '/');
    int own = slash ? (int)(slash + 1 - file) : 0;
    for (size_t i = 0; i < count; i++)
        if (snprintf(candidate, sizeof candidate, "%.*s%s%s", own, file, folders[i], name) < (int)sizeof candidate &&
            realpath(candidate, path))
            return 1;
    path[0] = '\0';
    return 0;
}

int installation_library(const char *file, const char *name, char path[PATH_MAX])
{
    static const char *const folders[] = {
        "", "../lib/", "../lib64/", "../lib/x86_64-linux-gnu/", "../lib/aarch64-linux-gnu/", "../cufence/lib/"};
    return installation_find(file, folders, sizeof folders / sizeof *folders, name, path);
}
