/*
 * PyTorch in a program without Python, such as one that runs an AOTInductor model: the allocator's class becomes PyTorch's
 * before main(). Where there is Python, _allocator.py does that.
 *
 * Only a class that was shipped serves: no compiler runs in the program. The version of PyTorch is read from the files that its
 * packages have above their libraries. Single-threaded: called by the preload library's constructor.
 */
#include "torch/torch.h"

#include "base/aside.h"
#include "base/env.h"
#include "base/output.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENEATH "backend:cudaMallocAsync" /* set by `cufence run` */
#define CURRENT "_ZN3c104cuda20CUDACachingAllocator9allocatorE"

static const char *const settings[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
static char reason[PATH_MAX + 256]; /* why the class does not serve */

struct version {
    int major, minor, patch;
};

static int find_c10(struct dl_phdr_info *library, size_t size, void *path)
{
    (void)size;
    const char *name = strrchr(library->dlpi_name, '/');
    return name && strcmp(name, "/libc10_cuda.so") == 0 && realpath(library->dlpi_name, path);
}

/* Of a release: "2.11.0+cu130". What was built from changed source is another PyTorch. */
static int read_version(const char *text, struct version *out)
{
    int length = 0;
    if (sscanf(text, "%d.%d.%d%n", &out->major, &out->minor, &out->patch, &length) < 3)
        return 0;
    text += length;
    return strchr("'\n", *text) || strncmp(text, "+cu", 3) == 0;
}

/* library: in the folder lib of the package. */
static int find_version(const char *library, struct version *out)
{
    static const struct {
        const char *name, *before;
    } files[] = {{"version.py", "__version__ = '"}, {"build-version", ""}};
    char path[PATH_MAX + 32], line[256];
    int is_found = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files && !is_found; i++) {
        const char *end = strstr(library, "/lib/libc10_cuda.so");
        snprintf(path, sizeof path, "%.*s/%s", end ? (int)(end - library) : 0, library, files[i].name);
        FILE *file = end ? fopen(path, "re") : NULL;
        while (file && !is_found && fgets(line, sizeof line, file)) {
            size_t before = strlen(files[i].before);
            is_found = strncmp(line, files[i].before, before) == 0 && read_version(line + before, out);
        }
        if (file)
            fclose(file);
    }
    return is_found;
}

/* Of the classes for the minor version: the newest that is no newer than this release, else the oldest. A bug-fix release has
 * one of its own only where the class would not fit it. */
static int is_better(int patch, int than, int wanted)
{
    if (than < 0 || (patch <= wanted) != (than <= wanted))
        return than < 0 || patch <= wanted;
    return patch <= wanted ? patch > than : patch < than;
}

static int find_class(const struct version *wanted, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    struct dirent *entry;
    Dl_info own;
    int best = -1;
    if (!dladdr((void *)&find_class, &own) || !realpath(own.dli_fname, folder))
        return 0;
    *strrchr(folder, '/') = '\0';
    strncat(folder, "/torch", sizeof folder - strlen(folder) - 1);
    DIR *all = opendir(folder);
    while (all && (entry = readdir(all)) != NULL) {
        struct version each;
        if (sscanf(entry->d_name, "libcufence-torch-%d.%d.%d-", &each.major, &each.minor, &each.patch) == 3 &&
            each.major == wanted->major && each.minor == wanted->minor && is_better(each.patch, best, wanted->patch) &&
            snprintf(path, PATH_MAX, "%s/%s", folder, entry->d_name) < PATH_MAX)
            best = each.patch;
    }
    if (all)
        closedir(all);
    return best >= 0;
}

static int has_code(struct dl_phdr_info *library, size_t size, void *address)
{
    (void)size;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && part->p_flags & PF_X &&
            *(uintptr_t *)address - library->dlpi_addr - part->p_vaddr < part->p_memsz)
            return 1;
    }
    return 0;
}

/* How many virtual functions the object's class has, as the Itanium C++ ABI lays them out. */
static size_t functions_of(const void *object)
{
    const uintptr_t *table = *(const uintptr_t *const *)object;
    size_t count = 0;
    for (uintptr_t each = table[0]; dl_iterate_phdr(has_code, &each); each = table[++count])
        continue;
    return count;
}

/* Takes the back end out of PyTorch's settings while it reads them: for cudaMallocAsync it would start the driver. */
static const char *install(const char *(*start)(int))
{
    char *before[2], *left, *entry, *next;
    for (size_t i = 0; i < 2; i++) {
        const char *text = env_get(settings[i]);
        before[i] = text ? strdup(text) : NULL;
        left = text ? calloc(1, strlen(text) + 2) : NULL;
        char *copy = next = left ? strdup(text) : NULL;
        while ((entry = strsep(&next, ",")) != NULL) {
            if (strcmp(entry, BENEATH) != 0)
                strcat(strcat(left, *left ? "," : ""), entry);
        }
        if (copy)
            setenv(settings[i], left, 1);
        free(copy);
        free(left);
    }
    const char *why = start(0);
    for (size_t i = 0; i < 2; i++) {
        if (before[i])
            setenv(settings[i], before[i], 1);
        free(before[i]);
    }
    return why;
}

static int open_class(const char *path)
{
    void **current = dlsym(RTLD_DEFAULT, CURRENT), *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library || !current || !*current) {
        snprintf(reason, sizeof reason, "%s", library ? "it has no allocator" : dlerror());
        return 0;
    }
    void *(*object)(void) = (void *(*)(void))dlsym(library, "cufence_torch_allocator");
    const char *(*start)(int) = (const char *(*)(int))dlsym(library, "cufence_torch_install");
    size_t ours = functions_of(object()), theirs = functions_of(*current);
    const char *why = ours == theirs ? install(start) : NULL;
    if (ours != theirs)
        snprintf(reason, sizeof reason, "%s has %zu virtual functions, and PyTorch's allocator %zu", path, ours, theirs);
    else if (why)
        snprintf(reason, sizeof reason, "%s", why);
    return ours == theirs && !why;
}

static void adopt(void *unused)
{
    (void)unused;
    char library[PATH_MAX], class[PATH_MAX], name[64] = "";
    struct version version;
    if (!dl_iterate_phdr(find_c10, library))
        return;
    int is_release = find_version(library, &version);
    if (is_release && find_class(&version, class) && open_class(class))
        return;
    if (is_release)
        snprintf(name, sizeof name, " %d.%d.%d", version.major, version.minor, version.patch);
    if (!reason[0])
        snprintf(reason, sizeof reason,
                 is_release ? "cufence was installed without an allocator for this version; its library is %s"
                            : "Neither version.py nor build-version above %s names a release",
                 library);
    if (strstr(env_get(settings[0]) ? env_get(settings[0]) : "", BENEATH)) /* else it stays unguarded, as before */
        output_say("cufence: PyTorch%s allocates through its cudaMallocAsync back end: no CUDA graph trees, memory pools and "
                   "snapshots, and small operations take a fifth longer. %s\n",
                   name, reason);
}

void cufence_torch_adopt(void)
{
    aside_call(adopt, NULL);
}
