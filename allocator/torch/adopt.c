/*
 * The allocator's class becomes PyTorch's. Where there is Python, _allocator.py chooses the class, and calls this.
 *
 * In a program without Python, such as one that runs an AOTInductor model, that happens before main(). Only a class that was
 * shipped serves there: no compiler runs in the program. The version of PyTorch is read from the files that its packages have
 * above their libraries. Single-threaded: called by the preload library's constructor, or under _allocator.py's lock.
 */
#include "torch/torch.h"

#include "base/aside.h"
#include "base/env.h"
#include "base/output.h"
#include "stacks/module.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENEATH "backend:cudaMallocAsync" /* set by `cufence run` */
#define CURRENT "_ZN3c104cuda20CUDACachingAllocator9allocatorE"

static const char *const settings[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
static char reason[2 * PATH_MAX + 256]; /* why the class does not serve */

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

/* Of an object with virtual functions: the name of its class. */
static const char *class_of(const void *object)
{
    const void *const *table = *(const void *const *const *)object;
    return ((const char *const *)table[-1])[1];
}

static int is_code(const struct dl_phdr_info *module, void *unused)
{
    (void)module;
    (void)unused;
    return 1;
}

/* How many virtual functions the object's class has, and its bases in c10, as the Itanium C++ ABI lays them out. */
static void put_shape(const void *object, char *out, size_t size)
{
    const void *const *table = *(const void *const *const *)object, *const *type = table[-1];
    size_t count = 0;
    while (module_visit((uint64_t)(uintptr_t)table[count], is_code, NULL))
        count++;
    size_t used = (size_t)snprintf(out, size, "%zu virtual functions and the bases", count);
    for (const char *before = " "; strstr(class_of(type), "__si_class_type_info") && used < size;) { /* it has one base */
        type = type[2];
        if (strncmp(type[1], "N3c10", strlen("N3c10")) != 0)
            continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s", before, (const char *)type[1]);
        before = ", ";
    }
}

/* Whether the entry of PyTorch's settings names the back end, with blanks or without. */
static int is_beneath(const char *entry)
{
    const char *wanted = BENEATH;
    for (; *entry; entry++) {
        if (*entry != ' ' && *entry != *wanted++)
            return 0;
    }
    return !*wanted;
}

/* Takes the back end out of PyTorch's settings while it reads them: for cudaMallocAsync it would start the driver. */
static const char *install(const char *(*start)(int), int is_traced)
{
    char *before[2], *left, *entry, *next;
    for (size_t i = 0; i < 2; i++) {
        const char *text = env_get(settings[i]);
        before[i] = text ? strdup(text) : NULL;
        left = text ? calloc(1, strlen(text) + 2) : NULL;
        char *copy = next = left ? strdup(text) : NULL;
        while ((entry = strsep(&next, ",")) != NULL) {
            if (!is_beneath(entry))
                strcat(strcat(left, *left ? "," : ""), entry);
        }
        if (copy)
            setenv(settings[i], left, 1);
        free(copy);
        free(left);
    }
    const char *why = start(is_traced);
    for (size_t i = 0; i < 2; i++) {
        if (before[i])
            setenv(settings[i], before[i], 1);
        free(before[i]);
    }
    return why;
}

static void *class; /* stays loaded, because PyTorch keeps a pointer into it */

/* Global: clang does not make the static variables of PyTorch's inline functions unique in a process, as gcc does, and the
 * class has to find PyTorch's own first (its settings are one). */
const char *cufence_torch_open(const char *path)
{
    void *loaded = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_GLOBAL);
    void **current = loaded ? dlsym(RTLD_DEFAULT, CURRENT) : NULL; /* a program that is linked with it may have a copy */
    void *library = current && *current ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *(*object)(void) = library ? (void *(*)(void))dlsym(library, "cufence_torch_allocator") : NULL;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *why = object ? NULL : dlerror();
    char ours[1024] = "", theirs[1024] = "";
    class = library;
    if (object) {
        put_shape(object(), ours, sizeof ours);
        put_shape(*current, theirs, sizeof theirs);
    }
    if (object && strcmp(ours, theirs) == 0)
        return NULL;
    if (object)
        snprintf(reason, sizeof reason, "%s does not fit this PyTorch: its allocator has %s, PyTorch's has %s", name, ours,
                 theirs);
    else
        snprintf(reason, sizeof reason, "%s does not fit this PyTorch: %s", name, why ? why : "it has no allocator");
    return reason;
}

const char *cufence_torch_start(int is_traced)
{
    const char *(*start)(int) = (const char *(*)(int))dlsym(class, "cufence_torch_install");
    return start ? install(start, is_traced) : dlerror();
}

static void adopt(void *unused)
{
    (void)unused;
    char library[PATH_MAX], path[PATH_MAX], name[64] = "";
    struct version version;
    const char *why = NULL;
    if (!dl_iterate_phdr(find_c10, library))
        return;
    int is_release = find_version(library, &version);
    if (is_release && find_class(&version, path) && !(why = cufence_torch_open(path)) && !(why = cufence_torch_start(0)))
        return;
    if (is_release)
        snprintf(name, sizeof name, " %d.%d.%d", version.major, version.minor, version.patch);
    if (!why)
        snprintf(reason, sizeof reason,
                 is_release ? "cufence was installed without an allocator for this version; its library is %s"
                            : "Neither version.py nor build-version above %s names a release",
                 library);
    if (strstr(env_get(settings[0]) ? env_get(settings[0]) : "", BENEATH)) /* else it stays unguarded, as before */
        output_say("cufence: PyTorch%s allocates through its cudaMallocAsync back end: no CUDA graph trees, memory pools and "
                   "snapshots, and small operations take a fifth longer. %s\n",
                   name, why ? why : reason);
}

void cufence_torch_adopt(void)
{
    aside_call(adopt, NULL);
}
