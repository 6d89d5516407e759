#include "handle.h"
#include "call.h"
#include "gpus.h"

#include <search.h>
#include <stdint.h>

struct handle {
    uintptr_t value;
    enum handle_kind kind;
    const void *owner;
    void *object;
};

/* The memory of a closed handle, or of one that must not be reused. */
struct slot {
    struct slot *next;
};

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static void *handles;       /* tree of struct handle, under handles_lock */
static struct slot *closed; /* to be reused, under handles_lock */
static struct slot *kept;   /* under handles_lock */
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

static void *add(enum handle_kind kind, void *value, void *object, const void *owner)
{
    struct handle *handle = memory_new(sizeof *handle);
    *handle = (struct handle){(uintptr_t)value, kind, owner, object};
    HOLD(&handles_lock);
    tree_add(handle, &handles, compare);
    return value;
}

void *handle_create(enum handle_kind kind, size_t size, const void *owner)
{
    void *object = memory_new(size);
    return add(kind, object, object, owner);
}

static struct handle *find_locked(enum handle_kind kind, const void *value)
{
    const struct handle key = {.value = (uintptr_t)value, .kind = kind};
    struct handle *const *node = tfind(&key, &handles, compare);
    if (node == NULL)
        handle_is_stale((uintptr_t)value);
    return node == NULL ? NULL : *node;
}

void *handle_find(enum handle_kind kind, const void *value)
{
    HOLD(&handles_lock);
    const struct handle *handle = find_locked(kind, value);
    return handle == NULL ? NULL : handle->object;
}

void *handle_open(enum handle_kind kind, void *object, const void *owner)
{
    pthread_mutex_lock(&handles_lock);
    struct slot *slot = closed;
    if (slot != NULL)
        closed = slot->next;
    pthread_mutex_unlock(&handles_lock);
    return add(kind, slot != NULL ? slot : memory_new(sizeof *slot), object, owner);
}

static void put(struct slot **list, void *memory)
{
    struct slot *slot = memory;
    HOLD(&handles_lock);
    slot->next = *list;
    *list = slot;
}

void handle_close(enum handle_kind kind, void *handle)
{
    handle_remove(kind, handle);
    put(config_get()->reuses_handles ? &closed : &kept, handle);
}

void handle_free(void *object)
{
    if (config_get()->reuses_handles)
        free(object);
    else
        put(&kept, object);
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
    void *object = search.found->object;
    tdelete(search.found, &handles, compare);
    free(search.found);
    return object;
}
