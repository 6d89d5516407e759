#include "installed.h"

#include "base/installation.h"

#include <string.h>
#include <unistd.h>

int installed_program(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

int installed_preload(const char *program, char path[PATH_MAX])
{
    return installation_library(program, INSTALLED_PRELOAD, path);
}

/* Looks in the package beside the program, beside the package's library, and in a checkout. */
int installed_bootstrap(const char *program, char path[PATH_MAX])
{
    static const char *const folders[] = {
        "../", "", "cufence/", "../cufence/", "../lib/cufence/", "../../allocator/torch/cufence/"};
    if (!installation_find(program, folders, sizeof folders / sizeof *folders, "_bootstrap/sitecustomize.py", path))
        return 0;
    *strrchr(path, '/') = '\0';
    return 1;
}
