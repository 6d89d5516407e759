#include "internal.h"

#include "preload.h"

#include <pthread.h>
#include <string.h>

struct real real;

typedef void (*function)(void);

struct row {
    const char *symbol, *base;
    int version, thread;
    function hook;
    function *real;
};

static const struct row rows[] = {
#define ROW(symbol, base, version, thread, how, check, parameters, arguments)                                                  \
    {#symbol, base, version, thread, (function)hook_##symbol, (function *)&real.symbol},
    PRELOAD_HOOKS(ROW)
#undef ROW
};
#define ROWS (sizeof rows / sizeof rows[0])

struct passed {
    const char *base;
    int version, thread;
};

static const struct passed passed[] = {
#define PASS(base, version, thread, reason) {base, version, thread},
    PRELOAD_PASSED(PASS)
#undef PASS
};
#define PASSED_ROWS (sizeof passed / sizeof passed[0])

static void find_all(void)
{
    for (size_t i = 0; i < ROWS; i++)
        *rows[i].real = (function)driver_symbol(rows[i].symbol);
}

void table_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_all);
}

static int has_asked; /* atomic */

int preload_is_there(void)
{
    return __atomic_load_n(&has_asked, __ATOMIC_RELAXED);
}

void *cufence_preload_hook(const char *symbol)
{
    __atomic_store_n(&has_asked, 1, __ATOMIC_RELAXED);
    table_open();
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].symbol, symbol) == 0)
            return *rows[i].real ? (void *)rows[i].hook : NULL;
    }
    return NULL;
}

/* The form of a function that cuGetProcAddress means with a version: the newest that is not newer. NULL where that one is not
 * hooked. */
static const struct row *by_version(const char *base, int version, int thread)
{
    const struct row *best = NULL;
    int best_version = -1;
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].thread == thread && rows[i].version <= version && rows[i].version > best_version &&
            strcmp(rows[i].base, base) == 0) {
            best = &rows[i];
            best_version = rows[i].version;
        }
    }
    for (size_t i = 0; i < PASSED_ROWS; i++) {
        if (passed[i].thread == thread && passed[i].version <= version && passed[i].version > best_version &&
            strcmp(passed[i].base, base) == 0)
            return NULL;
    }
    return best;
}

/* The driver has found `address` for what was asked for: our function in its place. */
static void *in_place_of(void *address, const char *name, int version, cuuint64_t flags)
{
    for (size_t i = 0; i < ROWS; i++) {
        if ((void *)*rows[i].real == address)
            return (void *)rows[i].hook;
    }
    const struct row *row = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? by_version(name, version, 1) : NULL;
    if (!row)
        row = by_version(name, version, 0);
    return row && *row->real ? (void *)row->hook : address;
}

CUresult hook_cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags)
{
    CUresult result = real.cuGetProcAddress(name, out, version, flags);
    if (result == CUDA_SUCCESS && name && out && *out)
        *out = in_place_of(*out, name, version, flags);
    return result;
}

CUresult hook_cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status)
{
    CUresult result = real.cuGetProcAddress_v2(name, out, version, flags, status);
    if (result == CUDA_SUCCESS && name && out && *out)
        *out = in_place_of(*out, name, version, flags);
    return result;
}

CUresult hook_cuGetProcAddress_v2_ptsz(const char *name, void **out, int version, cuuint64_t flags,
                                       CUdriverProcAddressQueryResult *status)
{
    CUresult result = real.cuGetProcAddress_v2_ptsz(name, out, version, flags, status);
    int is_default = (flags & (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)) == 0;
    if (result == CUDA_SUCCESS && name && out && *out)
        *out = in_place_of(*out, name, version, is_default ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : flags);
    return result;
}
