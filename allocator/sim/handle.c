#include "call.h"

#include <uthash.h>

struct handle {
    struct handle_key {
        const void *object;
        uint64_t kind;
    } key;
    const void *owner;
    UT_hash_handle hh;
};

/* An object without a handle. */
struct spare {
    struct spare *next;
};

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *handles;             /* under handles_lock, as are the next */
static struct spare *spares[HANDLE_KINDS]; /* to be reused; [0] is for those that must not be */
static atomic_ullong stale;

void handle_is_stale(uint64_t handle)
{
    if (handle == 0)
        return;
    atomic_fetch_add(&stale, 1);
    if (!config_get()->is_strict)
        return;
    fprintf(stderr, "cufence_sim: %s was given 0x%llx, which is no handle, or no longer\n", call_name(),
            (unsigned long long)handle);
    abort();
}

SIM_API uint64_t cusim_stale_handles(void)
{
    return atomic_load(&stale);
}

void *handle_create(enum handle_kind kind, size_t size, const void *owner)
{
    struct handle *handle = memory_new(sizeof *handle);
    HOLD(&handles_lock);
    struct spare *object = spares[kind];
    if (object != NULL) {
        spares[kind] = object->next;
        memset((void *)object, 0, size);
    } else {
        object = memory_new(size < sizeof *object ? sizeof *object : size);
    }
    handle->key = (struct handle_key){object, kind};
    handle->owner = owner;
    HASH_ADD(hh, handles, key, sizeof handle->key, handle);
    return object;
}

static struct handle *find_locked(enum handle_kind kind, const void *object)
{
    const struct handle_key key = {object, kind};
    struct handle *found;
    HASH_FIND(hh, handles, &key, sizeof key, found);
    if (found == NULL)
        handle_is_stale((uintptr_t)object);
    return found;
}

int handle_is_valid(enum handle_kind kind, const void *object)
{
    HOLD(&handles_lock);
    return find_locked(kind, object) != NULL;
}

int handle_remove(enum handle_kind kind, const void *object)
{
    HOLD(&handles_lock);
    struct handle *handle = find_locked(kind, object);
    if (handle != NULL)
        HASH_DEL(handles, handle);
    free(handle);
    return handle != NULL;
}

static void free_locked(uint64_t kind, const void *object)
{
    struct spare *spare = (struct spare *)(uintptr_t)object;
    LL_PREPEND(spares[config_get()->reuses_handles ? kind : 0], spare);
}

void handle_free(enum handle_kind kind, void *object)
{
    HOLD(&handles_lock);
    free_locked(kind, object);
}

int handle_destroy(enum handle_kind kind, void *object)
{
    int was_valid = handle_remove(kind, object);
    if (was_valid)
        handle_free(kind, object);
    return was_valid;
}

void handle_free_owned(const void *owner)
{
    struct handle *handle, *next;
    HOLD(&handles_lock);
    HASH_ITER(hh, handles, handle, next)
    {
        if (handle->owner != owner)
            continue;
        free_locked(handle->key.kind, handle->key.object);
        HASH_DEL(handles, handle);
        free(handle);
    }
}
