#include "handle.h"
#include "call.h"
#include "gpus.h"

#include <search.h>
#include <stdint.h>

struct handle {
    uintptr_t value;
    enum handle_kind kind;
    const void *owner;
};

/* An object without a handle. */
struct spare {
    struct spare *next;
};

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static void *handles;                      /* tree of struct handle, under handles_lock, as are the next */
static struct spare *spares[HANDLE_KINDS]; /* to be reused; [0] is for those that must not be */
static atomic_ullong stale;

static int compare(const void *a, const void *b)
{
    const struct handle *left = a, *right = b;
    if (left->value != right->value)
        return left->value < right->value ? -1 : 1;
    return (int)left->kind - (int)right->kind;
}

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
    *handle = (struct handle){(uintptr_t)object, kind, owner};
    tree_add(handle, &handles, compare);
    return object;
}

static struct handle *find_locked(enum handle_kind kind, const void *value)
{
    const struct handle key = {.value = (uintptr_t)value, .kind = kind};
    struct handle *const *node = tfind(&key, &handles, compare);
    if (node == NULL)
        handle_is_stale((uintptr_t)value);
    return node == NULL ? NULL : *node;
}

int handle_is_valid(enum handle_kind kind, const void *object)
{
    HOLD(&handles_lock);
    return find_locked(kind, object) != NULL;
}

void handle_free(enum handle_kind kind, void *object)
{
    struct spare *spare = object;
    HOLD(&handles_lock);
    LL_PREPEND(spares[config_get()->reuses_handles ? (int)kind : 0], spare);
}

int handle_remove(enum handle_kind kind, const void *object)
{
    HOLD(&handles_lock);
    struct handle *handle = find_locked(kind, object);
    if (handle == NULL)
        return 0;
    tdelete(handle, &handles, compare);
    free(handle);
    return 1;
}

struct search {
    enum handle_kind kind;
    const void *owner;
    struct handle *found;
};

static void visit(const void *node, VISIT order, void *argument)
{
    struct search *search = argument;
    struct handle *handle = *(struct handle *const *)node;
    if ((order == postorder || order == leaf) && handle->kind == search->kind && handle->owner == search->owner)
        search->found = handle;
}

void *handle_remove_owned(enum handle_kind kind, const void *owner)
{
    struct search search = {.kind = kind, .owner = owner};
    HOLD(&handles_lock);
    twalk_r(handles, visit, &search);
    if (search.found == NULL)
        return NULL;
    void *object = (void *)search.found->value;
    tdelete(search.found, &handles, compare);
    free(search.found);
    return object;
}
