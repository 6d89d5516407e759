#include "visits.h"

#include "base/lock.h"
#include "base/hash.h"

#include <stdlib.h>

#define MOST_GRAPHS 256 /* captures whose executable is not made yet; the oldest is forgotten */

/* A graph, or an executable. */
struct graph {
    UT_hash_handle hh; /* by handle */
    const void *handle;
    uint64_t capture;
    struct graph_kernels known;
};

static struct lock lock = LOCK(RANK_LEAF);
static struct graph *graphs, *executables; /* under the lock */
static unsigned any;                       /* atomic: number of executables */

static struct graph *find_locked(struct graph *table, const void *handle)
{
    struct graph *graph;
    lock_expect(RANK_LEAF);
    HASH_FIND_PTR(table, &handle, graph);
    return graph;
}

static void forget_locked(struct graph **table, struct graph *graph)
{
    lock_expect(RANK_LEAF);
    if (graph)
        HASH_DEL(*table, graph);
    free(graph);
}

/* What is known of it is not set. NULL: out of host memory. */
static struct graph *add_locked(struct graph **table, const void *handle)
{
    lock_expect(RANK_LEAF);
    struct graph *graph = malloc(sizeof *graph);
    if (!graph)
        return NULL;
    graph->handle = handle;
    HASH_ADD_PTR(*table, handle, graph);
    return HASH_KEPT(graph);
}

/* A handle may have been that of a graph which is gone: another capture. */
static struct graph *graph_locked(CUgraph handle, uint64_t capture)
{
    struct graph *graph = find_locked(graphs, handle);
    if (graph && graph->capture == capture)
        return graph;
    if (!graph && HASH_COUNT(graphs) == MOST_GRAPHS)
        forget_locked(&graphs, graphs); /* the oldest */
    if (!graph && (graph = add_locked(&graphs, handle)) == NULL)
        return NULL;
    graph->capture = capture;
    graph->known.users = 0;
    graph->known.function_count = graph->known.reached_count = 0;
    return graph;
}

static void add_function(struct graph_kernels *known, const struct launch_function *function)
{
    for (size_t i = 0; i < known->function_count; i++) {
        if (known->functions[i] == function)
            return;
    }
    if (known->function_count < GRAPH_KERNELS)
        known->functions[known->function_count++] = function;
}

static void add_reached(struct graph_kernels *known, const struct reached *reached)
{
    for (size_t i = 0; i < known->reached_count; i++) {
        if (known->reached[i].pointer == reached->pointer)
            return;
    }
    if (known->reached_count < GRAPH_POINTERS)
        known->reached[known->reached_count++] = *reached;
}

void graph_kernels_note(CUgraph graph, uint64_t capture, const struct launch_function *function, uint32_t users,
                        const struct reached *reached, size_t count)
{
    HOLD(&lock);
    struct graph *noted = graph_locked(graph, capture);
    if (noted) {
        noted->known.users |= users;
        add_function(&noted->known, function);
        for (size_t i = 0; i < count; i++)
            add_reached(&noted->known, &reached[i]);
    }
}

void graph_kernels_forget(CUgraph graph)
{
    HOLD(&lock);
    forget_locked(&graphs, find_locked(graphs, graph));
}

void graph_kernels_instantiated(CUgraphExec executable, CUgraph graph)
{
    HOLD(&lock);
    const struct graph *noted = find_locked(graphs, graph);
    forget_locked(&executables, find_locked(executables, executable)); /* whose end was not seen */
    struct graph *made = noted ? add_locked(&executables, executable) : NULL;
    if (made)
        made->known = noted->known;
    __atomic_store_n(&any, HASH_COUNT(executables), __ATOMIC_RELEASE);
}

void graph_kernels_gone(CUgraphExec executable)
{
    HOLD(&lock);
    forget_locked(&executables, find_locked(executables, executable));
    __atomic_store_n(&any, HASH_COUNT(executables), __ATOMIC_RELEASE);
}

uint32_t graph_kernels_users(CUgraphExec executable)
{
    if (!__atomic_load_n(&any, __ATOMIC_ACQUIRE))
        return 0;
    HOLD(&lock);
    const struct graph *found = find_locked(executables, executable);
    return found ? found->known.users : 0;
}

int graph_kernels_read(CUgraphExec executable, struct graph_kernels *out)
{
    HOLD(&lock);
    const struct graph *found = find_locked(executables, executable);
    if (found)
        *out = found->known;
    return found != NULL;
}
