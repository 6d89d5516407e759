/* Memory of captures without a named pool, and the launches that allocate it again. */
#include "graphs.h"

#include "base/hash.h"
#include "base/peak.h"

#include <stdlib.h>

static unsigned returned; /* atomic: number of blocks in lists of returned ones */

static int is_gone(const struct pool *pool)
{
    return pool->is_capture && !pool_is_held(pool);
}

/* ---- executables ---- */

struct executable {
    CUgraphExec handle;
    struct pool *pool; /* not reused for another capture while the executable exists; NULL: its graph has no memory of ours */
    size_t wanted;     /* see heap_graph_wants() */
    UT_hash_handle hh;
};

static struct executable *executables;
static struct lock executables_lock = LOCK(RANK_EXECUTABLES);
static int are_mixed; /* atomic: which launches allocate or free some memory is not known, so all executables are unknown */

/* Launches of graphs are numbered, while any block is returned: pool->launched is the latest of a graph. */
static uint64_t launches, other_launched; /* atomic; and the latest of an unknown executable */

static struct pool *earlier_of(const struct pool *pool)
{
    return __atomic_load_n(&pool->earlier, __ATOMIC_RELAXED);
}

static int allocates(const struct pool *pool)
{
    while (pool && !__atomic_load_n(&pool->blocks, __ATOMIC_RELAXED))
        pool = earlier_of(pool);
    return pool != NULL;
}

static int has_others(const struct pool *pool)
{
    return pool && __atomic_load_n(&pool->has_others, __ATOMIC_RELAXED);
}

int heap_graph_allocates(CUgraph graph)
{
    const struct pool *pool = graph ? pool_of_graph(graph) : NULL;
    int any = allocates(pool);
    struct pool *other = has_others(pool) ? pool_beside(pool, NULL) : NULL;
    for (; other && !any; other = pool_beside(pool, other))
        any = allocates(other);
    return any;
}

void heap_graph_instantiated(CUgraphExec handle, CUgraph graph, size_t wanted)
{
    struct pool *pool = graph ? pool_of_graph(graph) : NULL;
    struct executable *executable = malloc(sizeof *executable);
    heap_executable_gone(handle); /* it may have been another's, whose end was not seen */
    if (!executable)
        return;
    executable->handle = handle;
    executable->pool = pool;
    executable->wanted = wanted;
    lock_take(&executables_lock);
    HASH_ADD_PTR(executables, handle, executable);
    int is_added = executable->hh.tbl != NULL;
    lock_release(&executables_lock);
    if (!is_added) /* out of host memory: its launches count as those of an unknown executable */
        free(executable);
}

void heap_executable_gone(CUgraphExec handle)
{
    struct executable *executable;
    lock_take(&executables_lock);
    HASH_FIND_PTR(executables, &handle, executable);
    if (executable)
        HASH_DEL(executables, executable);
    lock_release(&executables_lock);
    free(executable);
}

static void launched(struct pool *pool, uint64_t number)
{
    for (; pool; pool = earlier_of(pool))
        raise_to(&pool->launched, number);
}

/* The executable's pool, and whether it is known what it allocates. */
static struct pool *pool_of_executable(CUgraphExec handle, int *is_known)
{
    struct executable *executable;
    HOLD(&executables_lock);
    HASH_FIND_PTR(executables, &handle, executable);
    *is_known = executable && !__atomic_load_n(&are_mixed, __ATOMIC_RELAXED);
    return executable ? executable->pool : NULL;
}

void heap_graph_launched(CUgraphExec handle)
{
    int is_known;
    if (__builtin_expect(!__atomic_load_n(&returned, __ATOMIC_RELAXED), 1))
        return;
    struct pool *pool = pool_of_executable(handle, &is_known), *other = NULL;
    uint64_t number = __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
    if (!is_known)
        raise_to(&other_launched, number);
    launched(pool, number);
    while (has_others(pool) && (other = pool_beside(pool, other)) != NULL)
        launched(other, number);
}

static void joins(struct pool *pool)
{
    HOLD(&pool->books->lock);
    if (__atomic_load_n(&pool->blocks, __ATOMIC_RELAXED) || pool->held_count)
        __atomic_store_n(&are_mixed, 1, __ATOMIC_RELAXED);
}

void heap_graph_joins(CUgraph graph)
{
    struct pool *pool = graph ? pool_of_graph(graph) : NULL, *other = NULL;
    if (pool)
        joins(pool);
    while (has_others(pool) && (other = pool_beside(pool, other)) != NULL)
        joins(other);
}

size_t heap_graph_wants(CUgraphExec handle)
{
    struct executable *executable;
    HOLD(&executables_lock);
    HASH_FIND_PTR(executables, &handle, executable);
    return executable ? executable->wanted : 0;
}

/* Another capture into the same graph has been before, and had another number. */
static void come_after(struct pool *pool, struct pool *earlier)
{
    if (!pool_is_held(earlier))
        return;
    HOLD(&pool->books->lock);
    if (earlier->books == pool->books && !has_others(earlier))
        __atomic_store_n(&pool->earlier, earlier, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&are_mixed, 1, __ATOMIC_RELAXED);
}

/* The graph has been captured into before. Captures into one graph have one number, and may run at the same time. */
static void come_again(const struct pool *pool)
{
    struct pool *each = NULL;
    while ((each = pool_beside(pool, each)) != NULL) {
        __atomic_store_n(&each->is_own, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&each->is_unordered, 1, __ATOMIC_RELAXED);
    }
}

void heap_follow_capture(struct stream *stream, int is_into_own)
{
    CUgraph graph = NULL;
    struct books *books = books_make(stream->context);
    struct pool *pool = books ? pool_of_capture(books, stream->handle, &graph) : NULL;
    size_t nodes = 0;
    if (!pool)
        return;
    if (__atomic_load_n(&pool->is_followed, __ATOMIC_ACQUIRE)) {
        come_again(pool);
        return;
    }
    struct pool *earlier = pool_of_graph(graph);
    if (earlier && driver->cuGraphGetNodes(graph, NULL, &nodes) == CUDA_SUCCESS && nodes)
        come_after(pool, earlier);
    __atomic_store_n(&pool->is_own, is_into_own, __ATOMIC_RELAXED);
    capture_follow(pool, graph);
}

void capture_lose(struct stream *stream)
{
    CUgraph graph = NULL;
    struct books *books = stream->context ? books_of(stream->context) : NULL;
    if (!books || !capture_has_begun(stream))
        return;
    SCOPE scope = scope_enter(stream->within);
    struct pool *pool = scope.pushed ? pool_of_capture(books, stream->handle, &graph) : NULL, *each = NULL;
    if (!pool || __atomic_load_n(&pool->is_own, __ATOMIC_RELAXED))
        return;
    while ((each = pool_beside(pool, each)) != NULL)
        __atomic_store_n(&each->is_lost, 1, __ATOMIC_RELEASE);
    captures_have_gone();
}

/* ---- nodes that the program adds ---- */

CUdeviceptr heap_node_of(uint64_t address)
{
    const struct block *block = index_find(address);
    return block ? block->node : 0;
}

struct standing {
    CUdeviceptr node;
    uint64_t address;
};

static int seek_node(struct slot *slot, void *user)
{
    struct standing *standing = user;
    const struct block *block = (struct block *)slot;
    if (!slot->is_mapped || block->node != standing->node || !block_pool_now(block))
        return 0;
    standing->address = block_address_now(block);
    return 1;
}

uint64_t heap_at_node(CUdeviceptr node)
{
    struct standing standing = {.node = node};
    if (node)
        blocks_each(seek_node, &standing);
    return standing.address;
}

void heap_reordered(struct stream *stream)
{
    CUgraph graph = NULL;
    struct books *books = books_of(stream->context);
    struct pool *pool = books && stream->handle ? pool_of_capture(books, stream->handle, &graph) : NULL;
    if (pool)
        __atomic_store_n(&pool->is_unordered, 1, __ATOMIC_RELAXED);
}

/* ---- buffers freed outside of their capture ---- */

/* The graph of `holder` frees memory of the graph of `held`. Caller holds books->lock. */
static void hold(struct pool *holder, struct pool *held)
{
    lock_expect(RANK_BOOKS);
    if (holder == held)
        return;
    for (size_t i = 0; i < holder->held_count; i++) {
        if (holder->held[i] == held)
            return;
    }
    __atomic_add_fetch(&held->references, 1, __ATOMIC_RELAXED);
    struct pool **grown = holder->is_capture ? realloc(holder->held, (holder->held_count + 1) * sizeof(struct pool *)) : NULL;
    if (!grown)
        return; /* `held` stays for good: nothing reports the end of the holder */
    grown[holder->held_count++] = held;
    holder->held = grown;
}

/* Each launch of the graph that frees the block is a free of it. Caller holds books->lock. */
static void note_frees(struct block *block)
{
    lock_expect(RANK_BOOKS);
    const uint64_t freed = block->freed_by ? __atomic_load_n(&block->freed_by->launched, __ATOMIC_RELAXED) : 0;
    if (freed > block->returned_after)
        block->returned_after = freed;
}

/* The launches of the graph of `holder` will free the block. Caller holds books->lock. */
static void free_by(struct block *block, struct pool *holder)
{
    lock_expect(RANK_BOOKS);
    note_frees(block);
    if (block->freed_by && block->freed_by != holder) /* that of two graphs; so what has freed it last is not known */
        __atomic_store_n(&are_mixed, 1, __ATOMIC_RELAXED);
    block->freed_by = holder;
    hold(holder, block->pool);
}

/* Caller holds books->lock. */
static void list_returned(struct block *block, unsigned how)
{
    lock_expect(RANK_BOOKS);
    if (!(block->returned & RETURNED_LISTED)) {
        DL_APPEND(block->pool->returned, block);
        __atomic_add_fetch(&returned, 1, __ATOMIC_RELAXED);
    }
    block->returned = RETURNED | RETURNED_LISTED | how;
}

void capture_hold(struct block *block)
{
    block_expect(block, BLOCK_HELD);
    HOLD(&block->books->lock);
    if (!block->pool->is_capture)
        return;
    list_returned(block, RETURNED_IDLE);
    block->returned_after = __atomic_load_n(&launches, __ATOMIC_RELAXED);
}

void capture_return(struct block *block, struct pool *capture, int is_idle)
{
    block_expect(block, BLOCK_HELD);
    lock_take(&block->books->lock);
    list_returned(block, is_idle ? RETURNED_IDLE : 0u);
    if (capture)
        free_by(block, capture);
    else
        block->returned_after = __atomic_load_n(&launches, __ATOMIC_RELAXED);
    lock_release(&block->books->lock);
    index_add(block);
}

/* The pool of a graph that the program makes itself. NULL: out of host memory. */
static struct pool *pool_by_hand(struct books *books, CUgraph graph)
{
    static uint64_t made; /* atomic; captures never have numbers as high as these */
    struct pool *known = pool_of_graph(graph);
    if (known && !pool_is_held(known))
        known = NULL;
    if (known && known->books == books)
        return known;
    struct pool *pool =
        pool_with_id(books, known ? capture_number(known) : UINT64_MAX - __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED));
    if (pool && known && !__atomic_load_n(&pool->is_followed, __ATOMIC_ACQUIRE))
        capture_joins(pool, graph);
    else if (pool && !known)
        capture_follow(pool, graph);
    return pool;
}

void heap_graph_frees(uint64_t address, CUgraph graph)
{
    struct block *block = index_find(address);
    struct pool *pool = block ? block_pool_now(block) : NULL, *holder = pool ? pool_by_hand(pool->books, graph) : NULL;
    if (!pool)
        return;
    HOLD(&pool->books->lock);
    if (holder) {
        list_returned(block, block->returned & RETURNED_IDLE);
        free_by(block, holder);
    } else {
        __atomic_add_fetch(&pool->references, 1, __ATOMIC_RELAXED); /* for good */
    }
}

/* Caller holds books->lock. */
static void unlist(struct block *block)
{
    lock_expect(RANK_BOOKS);
    DL_DELETE(block->pool->returned, block);
    block->freed_by = NULL;
    __atomic_and_fetch(&block->returned, ~(uint32_t)RETURNED_LISTED, __ATOMIC_RELAXED); /* another thread may read it */
    __atomic_sub_fetch(&returned, 1, __ATOMIC_RELAXED);
}

void capture_forget(struct block *block)
{
    block_expect(block, BLOCK_HELD);
    lock_take(&block->books->lock);
    if (block->returned & RETURNED_LISTED)
        unlist(block);
    lock_release(&block->books->lock);
    block->returned = 0;
    struct facts facts = block->facts;
    facts.who = facts_allocated_tid(&facts);
    facts_write(block, &facts);
    SCOPE scope = scope_enter(block->books->context);
    waits_forget(block);
}

void capture_forget_all(struct books *books)
{
    struct pool *pool;
    struct block *block, *next;
    HOLD(&books->lock);
    LL_FOREACH(books->pools, pool)
    {
        DL_FOREACH_SAFE(pool->returned, block, next)
        unlist(block);
        if (__atomic_exchange_n(&pool->has_others, 0, __ATOMIC_RELAXED) && pool_is_held(pool))
            __atomic_store_n(&are_mixed, 1, __ATOMIC_RELAXED); /* the others are not found from it any more */
        if (pool->is_capture)
            __atomic_store_n(&pool->id[1], 0, __ATOMIC_RELAXED); /* belongs to no capture any more */
        else
            __atomic_store_n(&pool->references, 0, __ATOMIC_RELAXED);
        pool->graph = NULL;
        for (size_t i = 0; i < pool->held_count; i++)
            __atomic_sub_fetch(&pool->held[i]->references, 1, __ATOMIC_RELEASE);
        pool->held_count = 0;
    }
}

/* ---- destroyed graphs ---- */

/* Finally frees a returned block, which the caller holds. If nobody uses it, it goes into *gone. */
static void let_go(struct block *block, struct block **gone)
{
    block_expect(block, BLOCK_HELD);
    struct freelist *shared = &block->books->shared;
    int is_idle = (block->returned & RETURNED_IDLE) != 0;
    block->returned = 0;
    block_join(block, NULL);
    facts_write_freed(block, now_ns(), block->facts.free_stream, 0);
    if (!is_idle && !block->wait_count && !block->awaits_context)
        waits_add_context(block, block->books); /* the work that used it could not be recorded */
    freelist_put(shared, block, is_idle ? BLOCK_PAST : BLOCK_RETIRING, now_ns());
    if (is_idle)
        DL_APPEND(*gone, block);
}

/* Caller holds books->lock. */
static void leave(const struct pool *holder, struct pool *held)
{
    lock_expect(RANK_BOOKS);
    struct block *block;
    DL_FOREACH(held->returned, block)
    {
        if (block->freed_by != holder)
            continue;
        note_frees(block);
        block->freed_by = NULL;
    }
    __atomic_sub_fetch(&held->references, 1, __ATOMIC_RELEASE);
}

/* Returns whether this released other graphs. Caller holds books->lock. */
static int release(struct pool *pool, struct block **gone)
{
    lock_expect(RANK_BOOKS);
    struct block *block, *next;
    DL_FOREACH_SAFE(pool->returned, block, next)
    {
        /* If the graph was launched since, the buffer is allocated again, and stays so although the graph is destroyed. The
         * program may be freeing it right now. */
        note_frees(block);
        int is_live = block->returned_after < __atomic_load_n(&pool->launched, __ATOMIC_RELAXED) ||
                      block->returned_after < __atomic_load_n(&other_launched, __ATOMIC_RELAXED);
        if (!is_live && index_claim(block_address_now(block)) != block)
            continue; /* it is being freed by another thread, which will also unlist it */
        unlist(block);
        if (!is_live)
            let_go(block, gone);
    }
    size_t count = pool->held_count;
    for (size_t i = 0; i < count; i++)
        leave(pool, pool->held[i]);
    pool->held_count = 0;
    return count != 0;
}

/* Only the graph has used the idle blocks of the pool's lists, and it is done: they go into *gone. The rest waits. Caller holds
 * books->lock. */
static void take_lists(struct pool *pool, struct block **gone)
{
    lock_expect(RANK_BOOKS);
    for (struct freelist *list = pool->lists; list; list = list->next)
        freelist_take_idle(list, gone);
    pools_drop_lists(pool);
}

void captures_collect(struct books *books, struct block **gone)
{
    struct pool *pool;
    HOLD(&books->lock);
    for (int again = 1; again;) {
        again = 0;
        LL_FOREACH(books->pools, pool)
        {
            if (is_gone(pool))
                again |= release(pool, gone);
        }
    }
    LL_FOREACH(books->pools, pool)
    {
        if (is_gone(pool))
            take_lists(pool, gone);
    }
}
