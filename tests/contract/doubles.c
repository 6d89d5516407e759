/* A program with a driver double of its own: its functions are the double's. */
#include "contract.h"

#include <dlfcn.h>
#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>

#define LOOKUP "dlsym(3): the function returns the address of that symbol in the library"

static void *open_double(int flags)
{
    char path[PATH_MAX], *slash;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    slash = strrchr(path, '/');
    snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "libcontract_double.so");
    void *library = dlopen(path, RTLD_NOW | flags);
    if (library == NULL) {
        puts(dlerror());
        exit(4);
    }
    return library;
}

PROMISE(double_by_dlsym, 1, LOOKUP)
{
    void *library = open_double(RTLD_LOCAL);
    int (*start)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    int (*allocate)(unsigned long long *, size_t) = (int (*)(unsigned long long *, size_t))dlsym(library, "cuMemAlloc_v2");
    int (*release)(unsigned long long) = (int (*)(unsigned long long))dlsym(library, "cuMemFree_v2");
    int (*launch)(void) = (int (*)(void))dlsym(library, "cuLaunchKernel");
    unsigned long long pointer = 0;
    printf("%d ", start(0));
    printf("%d ", allocate(&pointer, 10));
    printf("%llx ", pointer);
    printf("%d ", release(pointer));
    printf("%d\n", launch());
    printf("the library has no cuCtxSynchronize: %d\n", dlsym(library, "cuCtxSynchronize") == NULL);
}

extern char **environ;

/* The program beside this one is linked with the double, and with no driver. */
PROMISE(double_linked, 1, "ld.so(8): a program has the functions of the libraries that it is linked with")
{
    char path[PATH_MAX], *slash, *words[] = {path, NULL};
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 20);
    int status;
    pid_t child;
    path[length > 0 ? length : 0] = '\0';
    slash = strrchr(path, '/');
    strcpy(slash + 1, "contract_doubled");
    if (posix_spawn(&child, path, NULL, NULL, words, environ) != 0 || waitpid(child, &status, 0) != child)
        exit(4);
    printf("status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

PROMISE(double_beside_driver, 1, LOOKUP)
{
    void *library = open_double(RTLD_LOCAL), *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*start)(unsigned) = (int (*)(unsigned))dlsym(library, "cuInit");
    CUresult (*real)(unsigned) = (CUresult(*)(unsigned))dlsym(driver, "cuInit");
    CUdeviceptr pointer;
    printf("%d %d\n", start(0), (int)real(0));
    ASK(cuMemAlloc(&pointer, 1000));
    ASK(cuMemFree(pointer));
}
