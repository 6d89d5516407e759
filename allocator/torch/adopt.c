/*
 * The allocator's class becomes PyTorch's: the one that was built for PyTorch's release. Python calls this once PyTorch is
 * imported; in a program without Python, such as one that runs an AOTInductor model, the preload library's constructor does,
 * before main(). PyTorch's version is then read from the files that its packages have above their libraries. Never two calls at
 * the same time.
 */
#include "torch/torch.h"

#include "base/aside.h"
#include "base/env.h"
#include "base/output.h"
#include "stacks/module.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BENEATH "backend:cudaMallocAsync" /* set by `cufence run` */
#define CURRENT "_ZN3c104cuda20CUDACachingAllocator9allocatorE"

enum { VERSION = 64 }; /* bytes of a version's text */

static const char *const settings[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
static char reason[2 * PATH_MAX + 256]; /* why the class does not serve */

static int find_c10(struct dl_phdr_info *library, size_t size, void *path)
{
    (void)size;
    const char *name = strrchr(library->dlpi_name, '/');
    return name && strcmp(name, "/libc10_cuda.so") == 0 && realpath(library->dlpi_name, path);
}

/* library: in the folder lib of the package. */
static int find_version(const char *library, char version[VERSION])
{
    static const struct {
        const char *name, *format;
    } files[] = {{"version.py", "__version__ = '%63[^']"}, {"build-version", "%63s"}};
    char path[PATH_MAX + 32], line[256];
    int is_found = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files && !is_found; i++) {
        const char *end = strstr(library, "/lib/libc10_cuda.so");
        snprintf(path, sizeof path, "%.*s/%s", end ? (int)(end - library) : 0, library, files[i].name);
        FILE *file = end ? fopen(path, "re") : NULL;
        while (file && !is_found && fgets(line, sizeof line, file))
            is_found = sscanf(line, files[i].format, version) == 1;
        if (file)
            fclose(file);
    }
    return is_found;
}

/* The class for this very version, else the one for its release: "2.11.0+cu130". What was built from changed source is another
 * PyTorch. */
static int find_class(const char *version, char path[PATH_MAX])
{
    char folder[PATH_MAX], release[32];
    int major, minor, length = 0;
    Dl_info own;
    if (!dladdr((void *)&find_class, &own) || !realpath(own.dli_fname, folder))
        return 0;
    *strrchr(folder, '/') = '\0';
    int has_release = sscanf(version, "%d.%d.%*d%n", &major, &minor, &length) == 2 && length > 0 &&
                      (!version[length] || strncmp(version + length, "+cu", 3) == 0);
    snprintf(release, sizeof release, "%d.%d", has_release ? major : 0, has_release ? minor : 0);
    const char *const names[] = {version, release};
    for (size_t i = 0; i < 2; i++) {
        if (snprintf(path, PATH_MAX, "%s/torch/libcufence-torch-%s.so", folder, names[i]) < PATH_MAX && access(path, R_OK) == 0)
            return 1;
    }
    snprintf(reason, sizeof reason,
             has_release && major == 2 && minor >= CUFENCE_TORCH_FIRST && minor <= CUFENCE_TORCH_LAST
                 ? "cufence was built without the class for PyTorch %s; it supports 2.%d to 2.%d"
                 : "PyTorch %s is none of the releases that cufence supports: 2.%d to 2.%d",
             version, CUFENCE_TORCH_FIRST, CUFENCE_TORCH_LAST);
    return 0;
}

/* Of an object with virtual functions: the name of its class. */
static const char *class_of(const void *object)
{
    const void *const *table = *(const void *const *const *)object;
    return ((const char *const *)table[-1])[1];
}

static int is_code(const struct dl_phdr_info *module, uint64_t address, void *unused)
{
    (void)module, (void)address, (void)unused;
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

/* Calls cufence_torch_install() of allocator.cpp. PyTorch reads its settings meanwhile, without the back end cudaMallocAsync:
 * of that it would ask the driver for its version, which starts the driver, and no child of a fork could use CUDA then. Child
 * processes need the name, for PyTorch without Python. */
static const char *install(const char *(*start)(int), int is_traced)
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
    const char *why = start(is_traced);
    for (size_t i = 0; i < 2; i++) {
        if (before[i])
            setenv(settings[i], before[i], 1);
        free(before[i]);
    }
    return why;
}

/* Opens a class, and installs it if it fits the loaded PyTorch: the loader finds each of its symbols, and it has the bases and
 * the number of virtual functions that PyTorch's own allocator has. libc10 becomes global: clang does not make the static
 * variables of PyTorch's inline functions unique in a process, as gcc does, and the class has to find PyTorch's own first (its
 * settings are one). The class stays loaded, because PyTorch keeps a pointer into it. */
static const char *open_and_install(const char *path, int is_traced)
{
    void *loaded = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_GLOBAL);
    void **current = loaded ? dlsym(RTLD_DEFAULT, CURRENT) : NULL; /* a program that is linked with it may have a copy */
    void *library = current && *current ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *(*object)(void) = library ? (void *(*)(void))dlsym(library, "cufence_torch_allocator") : NULL;
    const char *(*start)(int) = object ? (const char *(*)(int))dlsym(library, "cufence_torch_install") : NULL;
    const char *name = strrchr(path, '/') + 1, *why = start ? NULL : dlerror();
    char ours[1024] = "", theirs[1024] = "";
    if (start) {
        put_shape(object(), ours, sizeof ours);
        put_shape(*current, theirs, sizeof theirs);
    }
    if (start && strcmp(ours, theirs) == 0)
        return install(start, is_traced);
    if (start)
        snprintf(reason, sizeof reason, "%s does not fit this PyTorch: its allocator has %s, PyTorch's has %s", name, ours,
                 theirs);
    else
        snprintf(reason, sizeof reason, "%s does not fit this PyTorch: %s", name, why ? why : "it has no allocator");
    return reason;
}

struct adoption {
    const char *version, *why;
    int is_traced;
};

static void adopt(void *argument)
{
    struct adoption *wanted = argument;
    char library[PATH_MAX] = "", path[PATH_MAX], found[VERSION];
    const char *version = wanted->version;
    if (!version && dl_iterate_phdr(find_c10, library) && find_version(library, found))
        version = found;
    wanted->why = reason;
    if (!version)
        snprintf(reason, sizeof reason, "Neither version.py nor build-version above %s says which PyTorch it is", library);
    else if (find_class(version, path))
        wanted->why = open_and_install(path, wanted->is_traced);
}

const char *cufence_torch_adopt(const char *version, int is_traced)
{
    struct adoption wanted = {.version = version, .is_traced = is_traced};
    aside_call(adopt, &wanted);
    return wanted.why;
}

int cufence_torch_adopt_or_say(const char *version)
{
    const char *why = cufence_torch_adopt(version, 1), *text = env_get(settings[0]);
    if (why && text && strstr(text, BENEATH)) /* else PyTorch's own allocator serves, unguarded */
        output_say("cufence: PyTorch allocates through its cudaMallocAsync back end: no CUDA graph trees, memory pools and "
                   "snapshots, and small operations take a fifth longer. %s\n",
                   why);
    return !why;
}
