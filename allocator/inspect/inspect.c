#include "inspect.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/slice.h"
#include "base/aside.h"
#include "base/lock.h"
#include "contexts/contexts.h"
#include "driver/driver.h"
#include "launch/inspect_table.h"
#include "inspect/code/code.h"
#include "inspect/values/types.h"
#include "inspect/visits/visits.h"

#include <stdlib.h>
#include <string.h>

/* ---- whether the code of kernels reads through a texture that is an argument ---- */

static struct asked {
    CUfunction handle;
    const char *symbol;
    int device, fetches;
    uint32_t offset; /* of the argument */
} asked[64];         /* under the lock */
static struct lock lock = LOCK(RANK_LEAF);

/* It is not known to, if the code can't be had, or calls functions of other sections. */
static void ask_code(void *argument)
{
    struct asked *now = argument;
    struct cubin_kernel kernel;
    const struct span cubin = inspect_code(now->symbol, now->device);
    now->fetches =
        cubin.bytes && cubin_find_kernel(cubin, now->symbol, &kernel) && slice_fetches(kernel.code, kernel.sm, now->offset);
    free((void *)(uintptr_t)cubin.bytes);
}

static int fetches(CUfunction handle, const char *symbol, int device, uint32_t offset)
{
    struct asked *known = &asked[((uintptr_t)handle >> 4 ^ (uintptr_t)handle >> 10 ^ offset >> 3) % 64];
    lock_take(&lock);
    struct asked now = *known;
    lock_release(&lock);
    if (now.handle == handle && now.device == device && now.offset == offset)
        return now.fetches;
    now = (struct asked){handle, symbol, device, 0, offset};
    aside_call(ask_code, &now);
    HOLD(&lock);
    *known = now;
    return now.fetches;
}

static void unloads(const void *module)
{
    if (code_is_kept)
        code_unloaded(module);
    declared_gone(module);
    HOLD(&lock);
    memset(asked, 0, sizeof asked);
}

void inspect_register(void)
{
    static struct inspector table = {.context_begun = visits_context_begun,
                                     .context_gone = visits_context_gone,
                                     .unloads = unloads,
                                     .graph_made = graph_kernels_forget,
                                     .graph_instantiated = graph_kernels_instantiated,
                                     .executable_gone = graph_kernels_gone,
                                     .kernel_declared = declared_add,
                                     .await = visits_await,
                                     .close = visits_close};
    table.loaded = code_is_kept ? code_loaded : NULL;
    table.loaded_file = code_is_kept ? code_loaded_file : NULL;
    table.fetches = code_is_kept ? fetches : NULL;
    table.launch_begins = visits_have_users() ? visits_launch_begins : NULL;
    table.launch_ended = visits_have_users() ? visits_launch_ended : NULL;
    table.host_writes = nan_wants_host_writes();
    __atomic_store_n(&inspector_registered, &table, __ATOMIC_RELEASE);
}

cufence_status inspect_open(const struct options *options, int keeps_code)
{
    static cufence_status (*const open[])(const struct options *) = {show_open, nan_open, saves_open};
    if (keeps_code)
        code_keep();
    visits_open(options);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        cufence_status status = open[i](options);
        if (status != CUFENCE_OK)
            return status;
    }
    inspect_register();
    return CUFENCE_OK;
}

/* ---- code ---- */

struct named {
    const char *symbol;
    struct span copy;
    int is_unclear; /* several modules have a kernel of the name */
};

static void take_named(struct span cubin, void *user)
{
    struct named *named = user;
    struct cubin_kernel kernel;
    if (!cubin_find_kernel(cubin, named->symbol, &kernel))
        return;
    if (named->copy.bytes) {
        named->is_unclear |= named->copy.size != cubin.size || memcmp(named->copy.bytes, cubin.bytes, cubin.size) != 0;
        return;
    }
    uint8_t *copy = malloc(cubin.size);
    if (copy)
        named->copy = (struct span){memcpy(copy, cubin.bytes, cubin.size), cubin.size};
}

struct span inspect_code(const char *symbol, int device)
{
    struct named named = {.symbol = symbol};
    char name[128];
    struct context *context = code_is_kept ? context_for_pool(device, NULL) : NULL;
    if (!context)
        return named.copy;
    struct scope scope = scope_visit(context);
    if (scope.pushed)
        code_look_named(symbol, driver_describe(device, name, sizeof name), take_named, &named);
    scope_leave(scope);
    if (named.is_unclear) {
        free((void *)(uintptr_t)named.copy.bytes);
        named.copy = (struct span){NULL, 0};
    }
    return named.copy;
}
