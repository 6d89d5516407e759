/*
 * Which graph a capture's memory belongs to: streams of several contexts may be captured into one. CUDA reports when a graph no
 * longer exists: a user object follows the captured graph into its clones, its executables, graphs that have it as a child, and
 * launches in progress. It is destroyed with the last of them (CUDA Programming Guide, "CUDA User Objects").
 */
#include "graphs.h"

static int has_gone;     /* atomic: a graph was destroyed since captures_are_gone() */
static int are_followed; /* atomic: the graph of some pool is */

void captures_have_gone(void)
{
    __atomic_store_n(&has_gone, 1, __ATOMIC_RELEASE);
    wake_worker();
}

int captures_are_gone(void)
{
    return __atomic_load_n(&has_gone, __ATOMIC_RELAXED) && __atomic_exchange_n(&has_gone, 0, __ATOMIC_ACQUIRE);
}

/* Runs on a thread of CUDA, which may not call CUDA. */
static void CUDA_CB graph_gone(void *user)
{
    struct pool *pool = user;
    __atomic_sub_fetch(&pool->references, 1, __ATOMIC_RELEASE);
    captures_have_gone();
}

/* Graphs have no ids, so the handle may have belonged to a destroyed graph of any context: clears it there, but not where the
 * capture of the graph has the number `id`. */
static void name_anew(CUgraph graph, uint64_t id)
{
    struct pool *pool;
    for (struct books *books = books_next(NULL, -1); books; books = books_next(books, -1)) {
        HOLD(&books->lock);
        LL_FOREACH(books->pools, pool)
        {
            if (pool->graph == graph && pool->id[1] != id)
                pool->graph = NULL;
        }
    }
}

void heap_graph_made(CUgraph graph)
{
    name_anew(graph, 0);
}

static void name_graph(struct pool *named, CUgraph graph)
{
    name_anew(graph, capture_number(named));
    HOLD(&named->books->lock);
    named->graph = graph;
}

struct pool *pool_beside(const struct pool *pool, const struct pool *previous)
{
    struct pool *found = NULL;
    const uint64_t number = capture_number(pool);
    struct books *books = number ? books_next(previous ? previous->books : NULL, -1) : NULL; /* 0: its context was destroyed */
    for (; books && !found; books = books_next(books, -1)) {
        HOLD(&books->lock);
        LL_FOREACH(books->pools, found)
        {
            if (found->is_capture && found->id[1] == number)
                break;
        }
    }
    return found;
}

struct pool *pool_of_graph(CUgraph graph)
{
    struct pool *pool = NULL;
    for (struct books *books = books_next(NULL, -1); books && !pool; books = books_next(books, -1)) {
        HOLD(&books->lock);
        LL_SEARCH_SCALAR(books->pools, pool, graph, graph);
    }
    return pool;
}

/* The graph holds the pool until it is gone. Returns 0 if that cannot be followed: it holds it for good. */
static int hold_by_graph(struct pool *pool, CUgraph graph)
{
    CUuserObject object;
    __atomic_add_fetch(&pool->references, 1, __ATOMIC_RELAXED);
    if (driver->cuUserObjectCreate(&object, pool, graph_gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) != CUDA_SUCCESS)
        return 0;
    if (driver->cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS)
        return 1;
    __atomic_add_fetch(&pool->references, 1, __ATOMIC_RELAXED); /* for good; the object's own ends with it */
    driver->cuUserObjectRelease(object, 1);
    return 0;
}

void capture_follow(struct pool *pool, CUgraph graph)
{
    name_graph(pool, graph);
    __atomic_store_n(&are_followed, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->is_followed, 1, __ATOMIC_RELEASE);
    if (hold_by_graph(pool, graph))
        __atomic_sub_fetch(&pool->references, 1, __ATOMIC_RELEASE); /* the capture's own */
}

void capture_joins(struct pool *pool, CUgraph graph)
{
    struct pool *other = __atomic_load_n(&are_followed, __ATOMIC_RELAXED) ? pool_beside(pool, NULL) : NULL;
    while (other && !__atomic_load_n(&other->is_followed, __ATOMIC_ACQUIRE))
        other = pool_beside(pool, other);
    if (!other || __atomic_exchange_n(&pool->has_others, 1, __ATOMIC_RELAXED))
        return; /* it is not followed, or another thread has come before */
    __atomic_store_n(&other->has_others, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->is_own, __atomic_load_n(&other->is_own, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    capture_follow(pool, graph);
}
