/*
 * Memory of captures that nobody has named a pool for. CUDA itself tells when a graph is gone: a user object goes with the
 * captured graph into its clones, its executables, the graphs that have it as a child, and the launches that are under way,
 * and is destroyed with the last of them (CUDA Programming Guide, "CUDA User Objects").
 */
#include "internal.h"

#include <stdlib.h>
#include <uthash.h>

static int captures;      /* atomic: under way */
static int is_keeping;    /* atomic: heap_keep_captures() */
static int has_gone;      /* atomic: since captures_are_gone() */
static unsigned returned; /* atomic: blocks in the lists of returned ones */

void heap_count_captures(int change)
{
    if (__atomic_add_fetch(&captures, change, __ATOMIC_RELAXED) < 0)
        __atomic_store_n(&captures, 0, __ATOMIC_RELAXED); /* one that began before we looked */
}

int heap_captures(void)
{
    return __atomic_load_n(&captures, __ATOMIC_RELAXED);
}

void heap_prepare_capture(void)
{
    CUcontext handle = NULL;
    driver->cuCtxGetCurrent(&handle);
    struct heap_context *context = handle ? context_known(handle) : NULL;
    if (!context)
        return;
    struct scope scope = scope_enter(context);
    for (struct freelist *list = __atomic_load_n(&context->freelists, __ATOMIC_ACQUIRE); list; list = list->next)
        freelist_mark_rest(list, now_ns());
    scope_leave(scope);
}

void heap_keep_captures(void)
{
    __atomic_store_n(&is_keeping, 1, __ATOMIC_RELAXED);
}

int captures_are_gone(void)
{
    return __atomic_load_n(&has_gone, __ATOMIC_RELAXED) && __atomic_exchange_n(&has_gone, 0, __ATOMIC_ACQUIRE);
}

/* ---- pools ---- */

static int is_gone(const struct pool *pool)
{
    return pool->is_capture && !pool_is_held(pool);
}

/* Expects context.lock. */
static int holds_memory(const struct pool *pool)
{
    return __atomic_load_n(&pool->blocks, __ATOMIC_ACQUIRE) || pool->held_count;
}

/* Finds or makes the pool of a capture; one whose graph and memory are gone serves again. Expects context.lock. */
static struct pool *obtain(struct heap_context *context, uint64_t capture)
{
    struct pool *pool, *spare = NULL;
    LL_FOREACH(context->pools, pool)
    {
        if (pool->is_capture && pool->id[1] == capture)
            return pool;
        if (is_gone(pool) && !holds_memory(pool))
            spare = pool;
    }
    if (!spare && (spare = calloc(1, sizeof *spare)) != NULL) {
        spare->context = context;
        spare->id[0] = UINT64_MAX;
        spare->is_capture = 1;
        LL_PREPEND(context->pools, spare);
    }
    if (spare) {
        __atomic_store_n(&spare->id[1], capture, __ATOMIC_RELAXED);
        spare->graph = NULL;
        spare->is_auto_freed = 0;
        __atomic_store_n(&spare->references, 1, __ATOMIC_RELEASE);
    }
    return spare;
}

static struct pool *pool_of_capture(struct heap_context *context, CUstream stream, CUgraph *graph)
{
    static _Thread_local struct pool *latest;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    if (driver->stream_capture_info(stream, &status, &id, graph, NULL, NULL) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return NULL;
    /* While its capture goes on, a pool is no other capture's. */
    if (latest && latest->context == context && __atomic_load_n(&latest->id[1], __ATOMIC_RELAXED) == id)
        return latest;
    pthread_mutex_lock(&context->lock);
    latest = obtain(context, id);
    pthread_mutex_unlock(&context->lock);
    return latest;
}

struct pool *capture_pool(struct heap_context *context, CUstream stream)
{
    /* The legacy stream cannot be captured; asking would cost a fifth of an allocation, or an error without a context. */
    if (!stream || stream == CU_STREAM_LEGACY)
        return NULL;
    return pool_of_capture(context, stream, NULL);
}

/* On a thread of CUDA's, which may not call CUDA. */
static void CUDA_CB graph_gone(void *user)
{
    struct pool *pool = user;
    if (__atomic_load_n(&is_keeping, __ATOMIC_RELAXED))
        return;
    __atomic_sub_fetch(&pool->references, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&has_gone, 1, __ATOMIC_RELEASE);
    worker_wake();
}

/* Graphs have no ids; a handle may be that of a graph that was destroyed. */
static void name_graph(struct pool *named, CUgraph graph)
{
    struct pool *pool;
    pthread_mutex_lock(&named->context->lock);
    LL_FOREACH(named->context->pools, pool)
    {
        if (pool->graph == graph)
            pool->graph = NULL;
    }
    named->graph = graph;
    pthread_mutex_unlock(&named->context->lock);
}

/* ---- executables of graphs that are followed ---- */

struct executable {
    CUgraphExec handle;
    struct pool *pool; /* not another capture's before the executable is gone */
    UT_hash_handle hh;
};

static struct executable *executables;
static pthread_mutex_t executables_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static uint64_t other_launches;                                      /* atomic: of unknown ones, while any block is returned */

static struct pool *pool_of_graph(CUgraph graph, int is_auto_freed)
{
    struct pool *pool = NULL;
    for (struct heap_context *context = context_next(NULL); context && !pool; context = context_next(context)) {
        pthread_mutex_lock(&context->lock);
        LL_SEARCH_SCALAR(context->pools, pool, graph, graph);
        if (pool)
            pool->is_auto_freed |= is_auto_freed;
        pthread_mutex_unlock(&context->lock);
    }
    return pool;
}

void heap_graph_instantiated(CUgraphExec handle, CUgraph graph, int is_auto_freed)
{
    struct pool *pool = graph ? pool_of_graph(graph, is_auto_freed) : NULL;
    struct executable *executable = pool ? malloc(sizeof *executable) : NULL;
    if (!executable)
        return;
    executable->handle = handle;
    executable->pool = pool;
    pthread_mutex_lock(&executables_lock);
    HASH_ADD_PTR(executables, handle, executable);
    pthread_mutex_unlock(&executables_lock);
}

void heap_executable_gone(CUgraphExec handle)
{
    struct executable *executable;
    pthread_mutex_lock(&executables_lock);
    HASH_FIND_PTR(executables, &handle, executable);
    if (executable)
        HASH_DEL(executables, executable);
    pthread_mutex_unlock(&executables_lock);
    free(executable);
}

void heap_graph_launch(CUgraphExec handle)
{
    struct executable *executable;
    if (__builtin_expect(!__atomic_load_n(&returned, __ATOMIC_RELAXED), 1))
        return;
    pthread_mutex_lock(&executables_lock);
    HASH_FIND_PTR(executables, &handle, executable);
    __atomic_add_fetch(executable ? &executable->pool->launches : &other_launches, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&executables_lock);
}

/* How often the graph may have been launched; only differences tell anything. */
static uint64_t launches_of(const struct pool *pool)
{
    return __atomic_load_n(&pool->launches, __ATOMIC_RELAXED) + __atomic_load_n(&other_launches, __ATOMIC_RELAXED);
}

void heap_follow_capture(CUstream stream)
{
    CUcontext handle = NULL;
    CUgraph graph = NULL;
    CUuserObject object;
    driver->cuCtxGetCurrent(&handle);
    struct heap_context *context = handle ? context_known(handle) : NULL;
    if (!context || !driver->cuUserObjectCreate || !driver->cuUserObjectRelease || !driver->cuGraphRetainUserObject)
        return;
    struct pool *pool = pool_of_capture(context, stream, &graph);
    if (!pool)
        return;
    name_graph(pool, graph);
    __atomic_add_fetch(&pool->references, 1, __ATOMIC_RELAXED); /* so that a failure leaves one for good */
    if (driver->cuUserObjectCreate(&object, pool, graph_gone, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) != CUDA_SUCCESS)
        return;
    if (driver->cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS)
        __atomic_sub_fetch(&pool->references, 1, __ATOMIC_RELEASE);
    else
        driver->cuUserObjectRelease(object, 1);
}

/* ---- buffers that were freed outside of their capture ---- */

/* The graph of `holder` frees memory of the graph of `held`. Expects context.lock. */
static void hold(struct pool *holder, struct pool *held)
{
    for (size_t i = 0; i < holder->held_count; i++) {
        if (holder->held[i] == held)
            return;
    }
    __atomic_add_fetch(&held->references, 1, __ATOMIC_RELAXED);
    struct pool **grown = holder->is_capture ? realloc(holder->held, (holder->held_count + 1) * sizeof(struct pool *)) : NULL;
    if (!grown)
        return; /* it stays for good: nobody knows when the holder goes */
    grown[holder->held_count++] = held;
    holder->held = grown;
}

void capture_return(struct block *block, struct pool *capture, int is_idle)
{
    struct pool *pool = block->pool;
    pthread_mutex_lock(&block->context->lock);
    if (!(block->returned & RETURNED_LISTED)) {
        DL_APPEND(pool->returned, block);
        __atomic_add_fetch(&returned, 1, __ATOMIC_RELAXED);
    }
    block->returned = RETURNED | RETURNED_LISTED | (is_idle ? RETURNED_IDLE : 0u) | (capture ? RETURNED_CAPTURED : 0u);
    block->returned_launches = launches_of(pool);
    if (capture)
        hold(capture, pool);
    pthread_mutex_unlock(&block->context->lock);
}

/* Expects context.lock. */
static void unlist(struct block *block)
{
    DL_DELETE(block->pool->returned, block);
    block->returned &= ~(uint32_t)RETURNED_LISTED;
    __atomic_sub_fetch(&returned, 1, __ATOMIC_RELAXED);
}

void capture_forget(struct block *block)
{
    pthread_mutex_lock(&block->context->lock);
    if (block->returned & RETURNED_LISTED)
        unlist(block);
    pthread_mutex_unlock(&block->context->lock);
    block->returned = 0;
    struct facts facts = block->facts;
    facts.who = facts_allocated_tid(&facts);
    facts_write(block, &facts);
    struct scope scope = scope_enter(block->context);
    block_forget_events(block);
    scope_leave(scope);
}

/* ---- graphs that are gone ---- */

/* Frees a returned block in earnest. Returns whether it is the caller's to unmap. */
static int let_go(struct block *block, struct freelist *to)
{
    enum freed_state state = block->returned & RETURNED_IDLE ? FREED_GONE : block->event_count ? FREED_RETIRING : FREED_WAITING;
    uint64_t now = now_ns();
    block->returned = 0;
    pool_join(block, NULL);
    facts_write_freed(block, now ? now : 1, block->facts.free_stream, 0);
    freelist_put(to, block, state, now);
    return state == FREED_GONE;
}

/* Puts what is to be unmapped into *gone. Returns whether other graphs have been let go. Expects context.lock. */
static int release(struct pool *pool, struct freelist *to, struct block **gone)
{
    struct block *block, *next;
    DL_FOREACH_SAFE(pool->returned, block, next)
    {
        if (index_remove(__atomic_load_n(&block->facts.address, __ATOMIC_RELAXED)) != block)
            continue; /* it is being freed just now, and is taken out of here by who does it */
        unlist(block);
        int is_live =
            !pool->is_auto_freed && !(block->returned & RETURNED_CAPTURED) && block->returned_launches != launches_of(pool);
        if (is_live) /* a launch since then has allocated it again, and a graph does not take it along */
            index_add(block);
        else if (let_go(block, to))
            DL_APPEND(*gone, block);
    }
    size_t count = pool->held_count;
    for (size_t i = 0; i < count; i++)
        __atomic_sub_fetch(&pool->held[i]->references, 1, __ATOMIC_RELEASE);
    pool->held_count = 0;
    return count != 0;
}

static int has_gone_pools(struct heap_context *context)
{
    struct pool *pool;
    pthread_mutex_lock(&context->lock);
    for (pool = context->pools; pool && !(is_gone(pool) && holds_memory(pool)); pool = pool->next)
        ;
    pthread_mutex_unlock(&context->lock);
    return pool != NULL;
}

/* Takes what only the graph has used out of a list, into *gone. Expects context.lock: with it, and with its blocks, the pool
 * stays that of the graph. */
static void take_all(struct freelist *list, struct block **gone)
{
    struct block *block;
    while ((block = freelist_take_idle(list)) != NULL)
        DL_APPEND(*gone, block);
}

static void release_all(struct heap_context *context, struct freelist *to, struct block **gone)
{
    struct pool *pool;
    for (int again = 1; again;) {
        again = 0;
        LL_FOREACH(context->pools, pool)
        {
            if (is_gone(pool))
                again |= release(pool, to, gone);
        }
    }
    for (struct freelist *list = context->freelists; list; list = list->next) {
        if (list->pool && is_gone(list->pool))
            take_all(list, gone);
    }
}

void captures_collect(struct heap_context *context)
{
    struct block *gone = NULL, *block, *next;
    if (__atomic_load_n(&context->is_dead, __ATOMIC_RELAXED) || !has_gone_pools(context))
        return;
    struct freelist *list = freelist_for(context, HEAP_SYNCHRONISED, NULL);
    if (!list)
        return;
    pthread_mutex_lock(&context->lock);
    release_all(context, list, &gone);
    pthread_mutex_unlock(&context->lock);
    DL_FOREACH_SAFE(gone, block, next)
    {
        DL_DELETE(gone, block);
        block_unmap(block);
    }
}
