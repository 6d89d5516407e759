#include "installed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int installed_program(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* Looks for `name` in folders relative to the program's. `path` gets its real path. */
static int find(const char *program, const char *const *folders, size_t count, const char *name, char path[PATH_MAX])
{
    char candidate[PATH_MAX];
    const char *slash = strrchr(program, '/');
    int own = slash ? (int)(slash + 1 - program) : 0;
    for (size_t i = 0; i < count; i++)
        if (snprintf(candidate, sizeof candidate, "%.*s%s%s", own, program, folders[i], name) < (int)sizeof candidate &&
            realpath(candidate, path))
            return 1;
    path[0] = '\0';
    return 0;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

int installed_preload(const char *program, char path[PATH_MAX])
{
    static const char *const folders[] = {"../lib/", "", "../lib64/", "../lib/x86_64-linux-gnu/", "../cufence/lib/"};
    return find(program, folders, COUNT(folders), INSTALLED_PRELOAD, path);
}

/* Looks in the package beside the program, beside the package's library, and in a checkout. */
int installed_bootstrap(const char *program, char path[PATH_MAX])
{
    static const char *const folders[] = {
        "../", "", "cufence/", "../cufence/", "../lib/cufence/", "../../allocator/torch/cufence/"};
    if (!find(program, folders, COUNT(folders), "_bootstrap/sitecustomize.py", path))
        return 0;
    *strrchr(path, '/') = '\0';
    return 1;
}
