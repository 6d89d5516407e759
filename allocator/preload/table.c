#include "preload_internal.h"

#include "api/lifecycle.h"
#include "base/aside.h"
#include "base/output.h"
#include "base/tally.h"

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

static void find_all(void)
{
    for (size_t i = 0; i < ROWS; i++)
        *rows[i].real = (function)driver_symbol(rows[i].symbol);
    if (real.cuInit)
        return;
    tally_note(TALLY_UNGUARDED); /* the program has a driver, and uses it */
    output_say("cufence: this process runs unguarded: %s\n", cufence_error_detail());
}

void table_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_all);
}

struct found {
    const void *address;
    int is_driver;
};

static void look(void *argument)
{
    struct found *found = argument;
    found->is_driver = driver_contains(found->address);
}

void *cufence_preload_hook(const char *symbol, const void *address)
{
    struct found found = {address, 1};
    if (address)
        aside_call(look, &found);
    if (!found.is_driver)
        return NULL;
    lifecycle_needs_no_rest(); /* interpose.c is loaded, and takes care of the debugger library */
    table_open();
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].symbol, symbol) == 0)
            return *rows[i].real ? (void *)rows[i].hook : NULL;
    }
    return NULL;
}

static void *ask_driver(const struct row *row)
{
    cuuint64_t flags = row->thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    CUdriverProcAddressQueryResult status;
    void *address = NULL;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (real.cuGetProcAddress_v2)
        result = real.cuGetProcAddress_v2(row->base, &address, row->version, flags, &status);
    else if (real.cuGetProcAddress)
        result = real.cuGetProcAddress(row->base, &address, row->version, flags);
    return result == CUDA_SUCCESS ? address : NULL;
}

/* Whether `address` is what the driver returns for exactly this form. That may differ from the exported symbol's address. */
static int is_answer(const struct row *row, void *address)
{
    static void *answers[ROWS]; /* atomic; NULL: not queried yet, or the driver lacks this form */
    void **answer = &answers[row - rows];
    if (!__atomic_load_n(answer, __ATOMIC_RELAXED))
        __atomic_store_n(answer, ask_driver(row), __ATOMIC_RELAXED);
    return __atomic_load_n(answer, __ATOMIC_RELAXED) == address;
}

/* Says it if a program of this version can get a form that is hooked: this one is newer. */
static void say_once(const char *base, int version)
{
    static int is_said[ROWS]; /* atomic; indexed by the first row of a base */
    const struct row *first = NULL;
    int is_newer = 0;
    for (size_t i = ROWS; i-- > 0;) {
        if (strcmp(rows[i].base, base) != 0)
            continue;
        first = &rows[i];
        is_newer |= first->version <= version;
    }
    if (is_newer && !__atomic_exchange_n(&is_said[first - rows], 1, __ATOMIC_RELAXED))
        output_say("cufence: this driver's %s is newer than this cufence, which does not see calls of it\n", base);
}

/*
 * Returns our hook for an address that the driver has returned, if it belongs to a form in the table. Any other form has
 * different parameters, whatever its version, so the program calls the driver's function.
 */
static void *hook_for(void *address, const char *name, int version)
{
    for (size_t i = 0; i < ROWS; i++) {
        if ((void *)*rows[i].real == address)
            return (void *)rows[i].hook;
    }
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].base, name) == 0 && *rows[i].real && is_answer(&rows[i], address))
            return (void *)rows[i].hook;
    }
    say_once(name, version);
    return address;
}

void give_hook(const char *name, void **out, int version)
{
    if (name && out && *out)
        *out = hook_for(*out, name, version);
}
