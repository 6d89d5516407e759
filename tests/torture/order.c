/* Order of work: streams, events, synchronisation, and kernels that hold a stream until they are released. */
#include "world.h"

#include <string.h>

void clock_join(struct clock *clock, const struct clock *other)
{
    for (int i = 0; i < QUEUES; i++) {
        if (other->at[i] > clock->at[i])
            clock->at[i] = other->at[i];
    }
}

int clock_covers(const struct clock *clock, const struct clock *needed)
{
    for (int i = 0; i < QUEUES; i++) {
        if (needed->at[i] > clock->at[i])
            return 0;
    }
    return 1;
}

/* ---- queues ---- */

static int is_blocking(const struct queue *queue)
{
    return queue->kind == QUEUE_BLOCKING || queue->kind == QUEUE_OWN_DEFAULT;
}

int queue_add(struct world *world, enum queue_kind kind, int context, CUstream handle)
{
    for (int i = 0; i < QUEUES; i++) {
        struct queue *queue = &world->queues[i];
        if (queue->is_used)
            continue;
        uint32_t position = queue->position;
        *queue = (struct queue){.is_used = 1, .is_live = 1, .kind = kind, .context = context, .handle = handle};
        queue->position = position;
        queue->thread = world->thread;
        queue->before = world->host;
        queue->work = world->host;
        for (int k = 0; k < BUFFERS; k++)
            world->buffers[k].recorded &= ~(UINT64_C(1) << i);
        return i;
    }
    return -1;
}

/* Frees the places of destroyed queues whose work is done: their positions are not needed any more. */
static void forget_queues(struct world *world)
{
    for (int i = 0; i < QUEUES; i++) {
        struct queue *queue = &world->queues[i];
        if (queue->is_used && !queue->is_live && world->host.at[i] == queue->position)
            queue->is_used = 0;
    }
}

int queue_own_default(struct world *world, int context)
{
    if (world->contexts[context].green)
        return -1; /* green contexts have no per-thread default stream */
    for (int i = 0; i < QUEUES; i++) {
        const struct queue *queue = &world->queues[i];
        if (queue->is_live && queue->kind == QUEUE_OWN_DEFAULT && queue->context == context && queue->thread == world->thread)
            return i;
    }
    return queue_add(world, QUEUE_OWN_DEFAULT, context, CU_STREAM_PER_THREAD);
}

int queue_pick(struct world *world, int context)
{
    int found[QUEUES + 1], count = 0;
    for (int i = 0; i < QUEUES; i++) {
        const struct queue *queue = &world->queues[i];
        if (queue->is_live && !queue->is_captured && (context < 0 || queue->context == context) &&
            (queue->kind != QUEUE_OWN_DEFAULT || queue->thread == world->thread))
            found[count++] = i;
    }
    if (chance(world, world->thread ? 30 : 12)) {
        int in = context;
        for (int tries = 0; in < 0 && tries < 8; tries++) {
            int guess = (int)pick(world, CONTEXTS);
            in = world->contexts[guess].is_live ? guess : -1;
        }
        int own = in < 0 ? -1 : queue_own_default(world, in);
        if (own >= 0)
            return own;
    }
    return count ? found[pick(world, (unsigned)count)] : -1;
}

void context_enter(struct world *world, int context)
{
    MUST(world, cu.cuCtxSetCurrent(world->contexts[context].handle));
}

void queue_enter(struct world *world, int queue)
{
    context_enter(world, world->queues[queue].context);
}

void queue_end(struct world *world, int queue)
{
    world->queues[queue].is_live = 0;
    forget_queues(world);
}

static int is_tied(const struct queue *queue, const struct queue *other)
{
    return other->is_used && other->context == queue->context &&
           ((queue->kind == QUEUE_LEGACY && is_blocking(other)) || (is_blocking(queue) && other->kind == QUEUE_LEGACY));
}

/* For the rules of the legacy stream, recording an event or waiting for one may count as work. And cufence may have recorded
 * one on the legacy stream at any time, which orders all streams tied to it. */
static void touch(struct world *world, struct queue *queue)
{
    for (int i = 0; i < QUEUES && queue->kind != QUEUE_NON_BLOCKING; i++) {
        const struct queue *other = &world->queues[i];
        if (other->is_used && other->context == queue->context && other->kind != QUEUE_NON_BLOCKING)
            clock_join(&queue->perhaps, &world->queues[i].perhaps);
    }
}

uint32_t queue_submit(struct world *world, int number)
{
    struct queue *queue = &world->queues[number];
    clock_join(&queue->before, &world->host);
    for (int i = 0; i < QUEUES; i++) {
        if (is_tied(queue, &world->queues[i]))
            clock_join(&queue->before, &world->queues[i].work);
    }
    touch(world, queue);
    queue->before.at[number] = ++queue->position;
    queue->work = queue->before;
    clock_join(&queue->perhaps, &queue->before);
    return queue->position;
}

uint32_t queue_mark(struct world *world, int number)
{
    struct queue *queue = &world->queues[number];
    clock_join(&queue->before, &world->host);
    touch(world, queue);
    queue->before.at[number] = ++queue->position;
    clock_join(&queue->perhaps, &queue->before);
    return queue->position;
}

/* ---- holds ---- */

#define UNTIMED_US 20000000u /* a call that waited this long is waiting for work that only the host could release */
#define TIMED_US 3000u

static void check_expired(struct world *world, struct hold *hold)
{
    if (!hold->is_timed && __atomic_load_n(&hold->latch->expired, __ATOMIC_ACQUIRE))
        fail(world, "a call waited for work that was held until after the call (on queue %d)", hold->queue);
}

void hold_queue(struct world *world, int number)
{
    for (int i = 0; i < HOLDS; i++) {
        struct hold *hold = &world->holds[i];
        if (hold->is_pending || (hold->queue >= 0 && world->host.at[hold->queue] < hold->position))
            continue;
        struct queue *queue = &world->queues[number];
        *hold->latch = (struct latch){0};
        hold->is_timed = world->is_shared || settings.is_timed || world->lacks || chance(world, 20);
        hold->queue = number;
        queue_enter(world, number);
        hold->position = queue_submit(world, number);
        hold->is_pending = 1;
        say(world, "hold %d on queue %d%s", i, number, hold->is_timed ? ", timed" : "");
        MUST(world, launch_hold(&world->contexts[queue->context].kernels, queue->handle, hold->latch,
                                hold->is_timed ? TIMED_US : UNTIMED_US));
        return;
    }
}

static void release(struct world *world, struct hold *hold)
{
    say(world, "release hold %d", (int)(hold - world->holds));
    check_expired(world, hold);
    hold->is_pending = 0;
    __atomic_store_n(&hold->latch->flag, 1, __ATOMIC_RELEASE);
}

void release_holds(struct world *world, const struct clock *clock)
{
    unsigned first = clock ? 0 : pick(world, HOLDS);
    for (unsigned i = 0; i < HOLDS; i++) {
        struct hold *hold = &world->holds[(first + i) % HOLDS];
        if (!hold->is_pending || (clock && clock->at[hold->queue] < hold->position))
            continue;
        release(world, hold);
        if (!clock)
            return;
    }
}

static struct clock clock_of_context(const struct world *world, int context, int perhaps)
{
    struct clock all = {{0}};
    for (int i = 0; i < QUEUES; i++) {
        if (world->queues[i].is_used && world->queues[i].context == context)
            clock_join(&all, perhaps ? &world->queues[i].perhaps : &world->queues[i].before);
    }
    return all;
}

void release_context(struct world *world, int context)
{
    /* A green context's memory belongs to its device's primary context: waiting for either one waits for both. */
    for (int i = 0; i < CONTEXTS; i++) {
        if (!world->contexts[i].is_live || world->contexts[i].device != world->contexts[context].device)
            continue;
        struct clock all = clock_of_context(world, i, 1);
        release_holds(world, &all);
    }
}

void release_contexts(struct world *world)
{
    for (int i = 0; i < CONTEXTS; i++) {
        if (world->contexts[i].is_live)
            release_context(world, i);
    }
}

/* ---- waiting on the host ---- */

static void host_covers(struct world *world, const struct clock *clock)
{
    clock_join(&world->host, clock);
    checks_verify(world);
    forget_queues(world);
}

void sync_queue(struct world *world, int number)
{
    struct queue *queue = &world->queues[number];
    struct clock before = queue->before;
    if (queue->kind == QUEUE_LEGACY)
        release_context(world, queue->context);
    touch(world, queue);
    release_holds(world, &queue->perhaps);
    say(world, "synchronise queue %d", number);
    queue_enter(world, number);
    MUST(world, cu.cuStreamSynchronize(queue->handle));
    host_covers(world, &before);
}

static pthread_rwlock_t capturing = PTHREAD_RWLOCK_INITIALIZER;

void captures_begin(void)
{
    pthread_rwlock_rdlock(&capturing);
}

void captures_end(void)
{
    pthread_rwlock_unlock(&capturing);
}

void sync_context(struct world *world, int context)
{
    struct clock all = clock_of_context(world, context, 0);
    release_context(world, context);
    say(world, "synchronise context %d", context);
    context_enter(world, context);
    pthread_rwlock_wrlock(&capturing);
    MUST(world, cu.cuCtxSynchronize());
    pthread_rwlock_unlock(&capturing);
    host_covers(world, &all);
}

int sync_clock(struct world *world, const struct clock *needed)
{
    for (int i = 0; i < QUEUES; i++) {
        struct queue *queue = &world->queues[i];
        if (needed->at[i] <= world->host.at[i])
            continue;
        if (world->depth || queue->is_captured || !world->contexts[queue->context].is_live)
            return 0;
        if (queue->is_live && (queue->kind != QUEUE_OWN_DEFAULT || queue->thread == world->thread))
            sync_queue(world, i);
        else
            sync_context(world, queue->context);
    }
    return 1;
}

/* ---- events ---- */

/* In real programs the second of the two calls may come from another thread; here it does not. */
static void wait_by_event(struct world *world, int to, int from)
{
    CUevent event;
    queue_enter(world, from);
    MUST(world, cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(world, cu.cuEventRecord(event, world->queues[from].handle));
    queue_enter(world, to);
    MUST(world, cu.cuStreamWaitEvent(world->queues[to].handle, event, 0));
    MUST(world, cu.cuEventDestroy(event));
    say(world, "queue %d waits for queue %d", to, from);
    clock_join(&world->queues[to].before, &world->queues[from].before);
    touch(world, &world->queues[from]);
    touch(world, &world->queues[to]);
    clock_join(&world->queues[to].perhaps, &world->queues[from].perhaps);
}

static int can_record(const struct world *world, int number)
{
    const struct queue *queue = &world->queues[number];
    return queue->is_live && !queue->is_captured && (queue->kind != QUEUE_OWN_DEFAULT || queue->thread == world->thread);
}

int queue_wait(struct world *world, int number, const struct clock *needed)
{
    struct queue *queue = &world->queues[number];
    clock_join(&queue->before, &world->host);
    if (clock_covers(&queue->before, needed))
        return 1;
    if (chance(world, 5))
        return sync_clock(world, needed);
    for (int i = 0; i < QUEUES; i++) {
        if (needed->at[i] <= queue->before.at[i])
            continue;
        if (!can_record(world, i))
            return sync_clock(world, needed);
        wait_by_event(world, number, i);
    }
    return 1;
}

/* ---- checks ---- */

static void verify(struct world *world, struct check *check)
{
    const struct result *result = check->result;
    check->is_pending = 0;
    if (__atomic_load_n(&result->done, __ATOMIC_ACQUIRE) == 0)
        fail(world, "the check of buffer #%u has not run, and the host has waited for it", check->buffer);
    if (result->wrong)
        fail(world, "buffer #%u holds wrong data: %u words; word %u is %#x, and should be %#x", check->buffer, result->wrong,
             result->index, result->got, check->value + result->index * check->step);
}

void checks_verify(struct world *world)
{
    for (int i = 0; i < CHECKS; i++) {
        struct check *check = &world->checks[i];
        if (check->is_pending && world->host.at[check->queue] >= check->position)
            verify(world, check);
    }
    for (int i = 0; i < HOLDS; i++)
        check_expired(world, &world->holds[i]);
    graphs_verify(world);
}

struct check *check_add(struct world *world, int queue)
{
    struct check *check = NULL;
    for (int i = 0; i < CHECKS && !check; i++)
        check = world->checks[i].is_pending ? NULL : &world->checks[i];
    if (!check && world->depth)
        return NULL;
    if (!check) {
        check = &world->checks[pick(world, CHECKS)];
        struct clock needed = {{0}};
        needed.at[check->queue] = check->position;
        sync_clock(world, &needed);
    }
    memset(check->result, 0, sizeof *check->result);
    check->is_pending = 1;
    check->queue = queue;
    return check;
}

void destroy_stream(struct world *world, CUstream stream)
{
    if (settings.is_alone)
        fence.stream_gone(stream);
    MUST(world, cu.cuStreamDestroy(stream));
}
