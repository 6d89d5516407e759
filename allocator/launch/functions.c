#include "inspect_table.h"

#include "base/lock.h"
#include "base/aside.h"
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 256u
#define MAX_PARAMETERS 8192u /* 32,764 bytes (CUDA 12.1 and later) of 4-byte arguments */
#define MAX_PARAMETER_BYTES 32764u

const struct inspector *inspector_registered;

/* Maps a handle to its function. The handle is written once; the function is cleared when functions are forgotten. */
struct slot {
    CUfunction handle;                      /* atomic; NULL: free */
    const struct launch_function *function; /* atomic; NULL: query the driver */
};

/* Open addressing. An outgrown table is never freed, because another thread may be searching it. */
struct table {
    struct table *smaller;
    size_t slots; /* a power of two */
    size_t used;  /* under the lock */
    struct slot slot[];
};

/* Functions with the same hash; under the lock. */
struct known {
    struct known *next;
    struct launch_function function; /* must be last: ends in a flexible array */
};

#define BUCKETS 1024u

static struct lock lock = LOCK(RANK_LEAF); /* a leaf: not held while calling the driver */
static struct table *newest;               /* atomic; written under the lock */
static struct known *known[BUCKETS];       /* under the lock */

static size_t hash_handle(CUfunction handle, const struct table *table)
{
    return (size_t)(((uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (table->slots - 1);
}

/* Returns the first slot, starting from the handle's hash, that is empty or holds the handle. *found tells which (NULL or the
 * handle). What else is in an empty slot is owned by the thread that fills it. */
static struct slot *slot_of(struct table *table, CUfunction handle, CUfunction *found)
{
    for (size_t i = hash_handle(handle, table);; i = (i + 1) & (table->slots - 1)) {
        *found = __atomic_load_n(&table->slot[i].handle, __ATOMIC_ACQUIRE);
        if (*found == handle || !*found)
            return &table->slot[i];
    }
}

/* ---- queries to the driver ---- */

static const char *name_of(CUfunction handle)
{
    const char *name = NULL;
    if (driver->cuFuncGetName && driver->cuFuncGetName(&name, handle) == CUDA_SUCCESS && name)
        return name;
    if (driver->cuKernelGetName && driver->cuKernelGetName(&name, (CUkernel)handle) == CUDA_SUCCESS && name)
        return name;
    return "";
}

static CUresult ask(CUfunction handle, int is_kernel, size_t index, size_t *offset, size_t *size)
{
    if (is_kernel ? !driver->cuKernelGetParamInfo : !driver->cuFuncGetParamInfo)
        return CUDA_ERROR_NOT_SUPPORTED;
    return is_kernel ? driver->cuKernelGetParamInfo((CUkernel)handle, index, offset, size)
                     : driver->cuFuncGetParamInfo(handle, index, offset, size);
}

/* Queries one argument after the other until the driver reports no more: it has no call for their number. */
static int read_layout(CUfunction handle, int is_kernel, struct launch_function *out)
{
    CUresult result = CUDA_SUCCESS;
    out->argument_count = out->argument_bytes = 0;
    while (out->argument_count < MAX_PARAMETERS) {
        size_t offset = 0, size = 0;
        result = ask(handle, is_kernel, out->argument_count, &offset, &size);
        if (result != CUDA_SUCCESS)
            break;
        if (offset > MAX_PARAMETER_BYTES || size > MAX_PARAMETER_BYTES - offset)
            return 0;
        out->arguments[out->argument_count++] = (struct launch_argument){(uint32_t)offset, (uint32_t)size};
        if (offset + size > out->argument_bytes)
            out->argument_bytes = (uint32_t)(offset + size);
    }
    return result == CUDA_ERROR_INVALID_VALUE; /* the index was too high; any other result: the handle was not understood */
}

static size_t bytes_of(const struct launch_function *function)
{
    return function->argument_count * sizeof function->arguments[0];
}

/* The runtime passes a CUkernel as a CUfunction. The cuFunc* queries fail for it with an error. */
static struct launch_function *ask_driver(CUfunction handle)
{
    struct launch_function *asked = calloc(1, sizeof *asked + MAX_PARAMETERS * sizeof asked->arguments[0]);
    if (!asked)
        return NULL;
    int is_function = read_layout(handle, 0, asked);
    asked->has_layout = is_function;
    if (!is_function || !asked->argument_count)
        asked->has_layout = read_layout(handle, 1, asked) || is_function;
    if (!asked->has_layout)
        asked->argument_count = asked->argument_bytes = 0;
    asked->name = name_of(handle);
    return asked;
}

/* ---- one entry per name and layout ---- */

static int is_same(const struct launch_function *a, const struct launch_function *b)
{
    return a->has_layout == b->has_layout && a->argument_count == b->argument_count && !strcmp(a->name, b->name) &&
           !memcmp(a->arguments, b->arguments, bytes_of(a));
}

static size_t bucket_of(const char *name)
{
    size_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash % BUCKETS;
}

static const struct launch_function *intern_locked(const struct launch_function *asked)
{
    lock_expect(RANK_LEAF);
    struct known **bucket = &known[bucket_of(asked->name)];
    for (struct known *at = *bucket; at; at = at->next)
        if (is_same(&at->function, asked))
            return &at->function;
    struct known *made = calloc(1, sizeof *made + bytes_of(asked));
    char *name = strdup(asked->name); /* the driver's string goes away with the module */
    if (!made || !name) {
        free(made);
        free(name);
        return NULL;
    }
    made->function = *asked;
    made->function.name = name;
    memcpy(made->function.arguments, asked->arguments, bytes_of(asked));
    made->next = *bucket;
    *bucket = made;
    return &made->function;
}

/* ---- handles ---- */

/* Makes a table with room for one more handle. Forgotten handles are not copied. */
static struct table *grow_locked(struct table *old)
{
    size_t alive = 0, slots = FIRST_SLOTS;
    CUfunction found;
    for (size_t i = 0; old && i < old->slots; i++)
        alive += old->slot[i].function != NULL;
    while (slots < 4 * (alive + 1))
        slots *= 2;
    struct table *table = calloc(1, sizeof *table + slots * sizeof table->slot[0]);
    if (!table)
        return NULL;
    table->smaller = old;
    table->slots = slots;
    table->used = alive;
    for (size_t i = 0; old && i < old->slots; i++)
        if (old->slot[i].function)
            *slot_of(table, old->slot[i].handle, &found) = old->slot[i];
    __atomic_store_n(&newest, table, __ATOMIC_RELEASE);
    return table;
}

static void add_locked(CUfunction handle, const struct launch_function *function)
{
    lock_expect(RANK_LEAF);
    CUfunction found;
    struct table *table = newest;
    if (!table || 2 * (table->used + 1) > table->slots)
        table = grow_locked(table);
    if (!table)
        return; /* the driver is queried again next time */
    struct slot *slot = slot_of(table, handle, &found);
    __atomic_store_n(&slot->function, function, __ATOMIC_RELEASE);
    if (!found) {
        table->used++;
        __atomic_store_n(&slot->handle, handle, __ATOMIC_RELEASE);
    }
}

struct looked_up {
    CUfunction handle;
    const struct launch_function *function;
};

static void look_up(void *argument)
{
    struct looked_up *looked_up = argument;
    struct launch_function *asked = ask_driver(looked_up->handle);
    if (!asked)
        return;
    lock_take(&lock);
    looked_up->function = intern_locked(asked);
    if (looked_up->function)
        add_locked(looked_up->handle, looked_up->function);
    lock_release(&lock);
    free(asked);
}

const struct launch_function *functions_find(CUfunction handle)
{
    CUfunction found;
    struct table *table = __atomic_load_n(&newest, __ATOMIC_ACQUIRE);
    struct slot *slot = table ? slot_of(table, handle, &found) : NULL;
    const struct launch_function *function = slot && found ? __atomic_load_n(&slot->function, __ATOMIC_ACQUIRE) : NULL;
    struct looked_up looked_up = {handle, function};
    if (__builtin_expect(!function && handle, 0))
        aside_call(look_up, &looked_up);
    return looked_up.function;
}

void launch_forget_functions(void)
{
    HOLD(&lock);
    for (size_t i = 0; newest && i < newest->slots; i++)
        __atomic_store_n(&newest->slot[i].function, NULL, __ATOMIC_RELEASE);
}

/* ---- arguments of a launch ---- */

const void *launch_buffer(void *const *extra, size_t *size)
{
    const void *buffer = NULL;
    *size = 0;
    for (; extra && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *size = extra[1] ? *(const size_t *)extra[1] : 0;
        else
            break; /* unknown option of a future CUDA version; its number of values is unknown */
    }
    return buffer;
}
