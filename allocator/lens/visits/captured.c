#include "captured.h"

#include "base/lock.h"

#include <stdlib.h>
#include <string.h>

#define MOST_GRAPHS 256 /* captures whose executable is not made yet; the oldest is forgotten */

struct graph {
    struct graph *next;
    CUgraph handle;
    uint64_t capture;
    struct captured known;
};

struct executable {
    struct executable *next;
    CUgraphExec handle;
    struct captured known;
};

static struct lock lock = LOCK(RANK_LEAF); /* a leaf */
static struct graph *graphs;               /* newest first; under the lock, like the rest */
static struct executable *executables;
static unsigned any; /* atomic: number of executables that are known */

static struct graph *find_locked(CUgraph handle)
{
    struct graph *graph = graphs;
    while (graph && graph->handle != handle)
        graph = graph->next;
    return graph;
}

static void forget_oldest_locked(void)
{
    size_t count = 0;
    struct graph **link = &graphs;
    for (; *link; link = &(*link)->next) {
        if (++count < MOST_GRAPHS)
            continue;
        free(*link);
        *link = NULL;
        return;
    }
}

/* A handle may have been that of a graph which is gone: another capture. */
static struct graph *graph_locked(CUgraph handle, uint64_t capture)
{
    struct graph *graph = find_locked(handle);
    if (!graph) {
        forget_oldest_locked();
        if ((graph = malloc(sizeof *graph)) == NULL)
            return NULL;
        graph->next = graphs;
        graphs = graph;
        graph->handle = handle;
        graph->capture = ~capture;
    }
    if (graph->capture != capture) {
        graph->capture = capture;
        graph->known.users = 0;
        graph->known.function_count = graph->known.reached_count = 0;
    }
    return graph;
}

static void add_function(struct captured *known, const struct launch_function *function)
{
    for (size_t i = 0; i < known->function_count; i++) {
        if (known->functions[i] == function)
            return;
    }
    if (known->function_count < CAPTURED_KERNELS)
        known->functions[known->function_count++] = function;
}

static void add_reached(struct captured *known, const struct reached *reached)
{
    for (size_t i = 0; i < known->reached_count; i++) {
        if (known->reached[i].pointer == reached->pointer)
            return;
    }
    if (known->reached_count < CAPTURED_POINTERS)
        known->reached[known->reached_count++] = *reached;
}

void captured_note(CUgraph graph, uint64_t capture, const struct launch_function *function, uint32_t users,
                   const struct reached *reached, size_t count)
{
    lock_take(&lock);
    struct graph *noted = graph_locked(graph, capture);
    if (noted) {
        noted->known.users |= users;
        add_function(&noted->known, function);
        for (size_t i = 0; i < count; i++)
            add_reached(&noted->known, &reached[i]);
    }
    lock_release(&lock);
}

void captured_instantiated(CUgraphExec executable, CUgraph graph)
{
    lock_take(&lock);
    const struct graph *noted = find_locked(graph);
    struct executable *made = noted ? malloc(sizeof *made) : NULL;
    if (made) {
        made->next = executables; /* one by one: it is too large for a copy on the stack */
        made->handle = executable;
        made->known = noted->known;
        executables = made;
        __atomic_add_fetch(&any, 1, __ATOMIC_RELEASE);
    }
    lock_release(&lock);
}

void captured_executable_gone(CUgraphExec executable)
{
    lock_take(&lock);
    for (struct executable **link = &executables; *link; link = &(*link)->next) {
        struct executable *gone = *link;
        if (gone->handle != executable)
            continue;
        *link = gone->next;
        free(gone);
        __atomic_sub_fetch(&any, 1, __ATOMIC_RELEASE);
        break;
    }
    lock_release(&lock);
}

static const struct executable *executable_locked(CUgraphExec handle)
{
    const struct executable *found = executables;
    while (found && found->handle != handle)
        found = found->next;
    return found;
}

uint32_t captured_users(CUgraphExec executable)
{
    if (!__atomic_load_n(&any, __ATOMIC_ACQUIRE))
        return 0;
    lock_take(&lock);
    const struct executable *found = executable_locked(executable);
    uint32_t users = found ? found->known.users : 0;
    lock_release(&lock);
    return users;
}

int captured_read(CUgraphExec executable, struct captured *out)
{
    lock_take(&lock);
    const struct executable *found = executable_locked(executable);
    if (found)
        *out = found->known;
    lock_release(&lock);
    return found != NULL;
}
