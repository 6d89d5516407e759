/* count_questions LIBRARY: opens the CUDA driver, then the library, and says what the loader was asked meanwhile. The two
 * functions stand in front of the C library's, for whatever else is in the process too. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

typedef int visitor(struct dl_phdr_info *, size_t, void *);

static unsigned questions, visits; /* calls of dladdr(); libraries that dl_iterate_phdr() showed */

EXPORT int counting_dladdr(const void *address, Dl_info *info) __asm__("dladdr");
EXPORT int counting_dladdr(const void *address, Dl_info *info)
{
    static int (*real)(const void *, Dl_info *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "dladdr");
    questions++;
    return real(address, info);
}

static visitor *asking;

static int count_visit(struct dl_phdr_info *library, size_t size, void *user)
{
    visits++;
    return asking(library, size, user);
}

EXPORT int dl_iterate_phdr(visitor *visit, void *user)
{
    static int (*real)(visitor *, void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    asking = visit;
    return real(count_visit, user);
}

int main(int count, char **arguments)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*start)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
    if (count < 2 || !start || start(0) != 0)
        return 2;
    questions = visits = 0;
    if (!dlopen(arguments[1], RTLD_NOW))
        return 2;
    printf("dladdr %u\nlibraries %s\n", questions, visits < 2 * 20000 ? "seldom" : "again and again");
    return 0;
}
