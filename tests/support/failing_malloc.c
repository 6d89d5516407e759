#include "failing_malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static const char *object = "libcufence.so";      /* written by set_up(), before main() */
static atomic_uintptr_t start, size;              /* of it; 0 until it has called */
static atomic_uint counted, fail_at;              /* fail_at: the value of counted whose call fails; 0: none */
static __thread int is_looking;                   /* dlsym may allocate */
static _Alignas(16) unsigned char early[1 << 16]; /* for what is allocated while the real functions are looked for */
static atomic_size_t early_used;

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void (*free)(void *);
} real;
static atomic_int is_ready;

static void *find(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL)
        abort();
    return function;
}

/* Two threads find the same. */
static int make_ready(void)
{
    if (atomic_load_explicit(&is_ready, memory_order_acquire))
        return 1;
    if (is_looking)
        return 0;
    is_looking = 1;
    *(void **)&real.malloc = find("malloc");
    *(void **)&real.calloc = find("calloc");
    *(void **)&real.realloc = find("realloc");
    *(void **)&real.aligned_alloc = find("aligned_alloc");
    *(void **)&real.posix_memalign = find("posix_memalign");
    *(void **)&real.free = find("free");
    is_looking = 0;
    atomic_store_explicit(&is_ready, 1, memory_order_release);
    return 1;
}

static void *take_early(size_t wanted)
{
    size_t bytes = (wanted + 15) / 16 * 16;
    size_t at = atomic_fetch_add(&early_used, bytes);
    return at + bytes <= sizeof early ? &early[at] : NULL;
}

static int is_early(const void *memory)
{
    return (const unsigned char *)memory >= early && (const unsigned char *)memory < early + sizeof early;
}

/* Whether an address lies in the object, which is known by the first call from there, its constructors' included. */
static int is_in_object(const void *address)
{
    uintptr_t first = atomic_load_explicit(&start, memory_order_acquire);
    if (first != 0)
        return (uintptr_t)address - first < atomic_load_explicit(&size, memory_order_relaxed);
    struct dl_find_object found; /* takes no lock and allocates nothing, unlike dladdr */
    if (_dl_find_object((void *)(uintptr_t)address, &found) != 0)
        return 0;
    const char *path = found.dlfo_link_map->l_name[0] != '\0' ? found.dlfo_link_map->l_name : program_invocation_name;
    if (strstr(path, object) == NULL)
        return 0;
    atomic_store(&size, (uintptr_t)found.dlfo_map_end - (uintptr_t)found.dlfo_map_start);
    atomic_store_explicit(&start, (uintptr_t)found.dlfo_map_start, memory_order_release);
    return 1;
}

static int fails(const void *caller)
{
    if (!is_in_object(caller))
        return 0;
    unsigned number = atomic_fetch_add(&counted, 1) + 1;
    return number == atomic_load(&fail_at);
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

EXPORT void *malloc(size_t bytes)
{
    if (!make_ready())
        return take_early(bytes);
    return fails(CALLER) ? NULL : real.malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
    if (!make_ready())
        return take_early(count * bytes); /* never used before, so it is zero */
    return fails(CALLER) ? NULL : real.calloc(count, bytes);
}

static void *resize(void *memory, size_t bytes)
{
    if (memory != NULL && is_early(memory)) {
        size_t left = (size_t)(early + sizeof early - (unsigned char *)memory);
        void *larger = real.malloc(bytes);
        return larger == NULL ? NULL : memcpy(larger, memory, bytes < left ? bytes : left);
    }
    return real.realloc(memory, bytes);
}

EXPORT void *realloc(void *memory, size_t bytes)
{
    if (!make_ready())
        return memory == NULL ? take_early(bytes) : NULL;
    return fails(CALLER) ? NULL : resize(memory, bytes);
}

EXPORT void *reallocarray(void *memory, size_t count, size_t each)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes) || !make_ready() || fails(CALLER)) {
        errno = ENOMEM;
        return NULL;
    }
    return resize(memory, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
    return !make_ready() || fails(CALLER) ? NULL : real.aligned_alloc(alignment, bytes);
}

EXPORT int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    return !make_ready() || fails(CALLER) ? ENOMEM : real.posix_memalign(memory, alignment, bytes);
}

EXPORT void free(void *memory)
{
    if (memory != NULL && !is_early(memory) && make_ready())
        real.free(memory);
}

EXPORT void fail_malloc(unsigned nth)
{
    atomic_store(&fail_at, 0);
    atomic_store(&counted, 0);
    atomic_store(&fail_at, nth);
}

EXPORT unsigned fail_malloc_count(void)
{
    return atomic_load(&counted);
}

__attribute__((constructor)) static void set_up(void)
{
    const char *in = getenv("CUFENCE_FAIL_MALLOC_IN"), *nth = getenv("CUFENCE_FAIL_MALLOC");
    if (in != NULL && in[0] != '\0')
        object = in;
    fail_malloc(nth == NULL ? 0 : (unsigned)strtoul(nth, NULL, 10));
}

__attribute__((destructor)) static void say(void)
{
    const char *nth = getenv("CUFENCE_FAIL_MALLOC");
    if (nth == NULL)
        return;
    unsigned count = fail_malloc_count(), wanted = atomic_load(&fail_at);
    fprintf(stderr, "failing_malloc: %u allocations in %s, ", count, object);
    if (wanted != 0 && wanted <= count)
        fprintf(stderr, "number %u failed\n", wanted);
    else
        fprintf(stderr, "none failed\n");
}
