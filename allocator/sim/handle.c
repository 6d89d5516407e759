#include "handle.h"

#include <pthread.h>
#include <search.h>
#include <stdint.h>
#include <stdlib.h>

struct handle {
    uintptr_t object;
    enum handle_kind kind;
    const void *owner;
};

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static void *handles; /* tree of struct handle, under handles_lock */

static int compare(const void *a, const void *b)
{
    const struct handle *left = a, *right = b;
    if (left->object != right->object)
        return left->object < right->object ? -1 : 1;
    return (int)left->kind - (int)right->kind;
}

int handle_add(enum handle_kind kind, const void *object, const void *owner)
{
    struct handle *handle = malloc(sizeof *handle);
    if (handle == NULL)
        return -1;
    *handle = (struct handle){(uintptr_t)object, kind, owner};
    pthread_mutex_lock(&handles_lock);
    void *node = tsearch(handle, &handles, compare);
    pthread_mutex_unlock(&handles_lock);
    if (node == NULL)
        free(handle);
    return node == NULL ? -1 : 0;
}

int handle_is_valid(enum handle_kind kind, const void *object)
{
    struct handle key = {.object = (uintptr_t)object, .kind = kind};
    pthread_mutex_lock(&handles_lock);
    int is_valid = tfind(&key, &handles, compare) != NULL;
    pthread_mutex_unlock(&handles_lock);
    return is_valid;
}

int handle_remove(enum handle_kind kind, const void *object)
{
    struct handle key = {.object = (uintptr_t)object, .kind = kind};
    pthread_mutex_lock(&handles_lock);
    struct handle **node = tfind(&key, &handles, compare);
    struct handle *handle = node == NULL ? NULL : *node;
    if (handle != NULL)
        tdelete(&key, &handles, compare);
    pthread_mutex_unlock(&handles_lock);
    free(handle);
    return handle != NULL;
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
    pthread_mutex_lock(&handles_lock);
    twalk_r(handles, visit, &search);
    if (search.found != NULL)
        tdelete(search.found, &handles, compare);
    pthread_mutex_unlock(&handles_lock);
    void *object = search.found == NULL ? NULL : (void *)search.found->object;
    free(search.found);
    return object;
}
