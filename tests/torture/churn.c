/* A step that creates and ends many streams, threads or contexts. */
#include "world.h"

#include <malloc.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static size_t host_bytes(void)
{
    return 0;
}
#else
static size_t host_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
#endif

static CUcontext churned;

static void use_stream(struct world *world, CUstream stream)
{
    CUdeviceptr address;
    MUST(world, cu.cuMemAllocAsync(&address, 4096, stream));
    MUST(world, cu.cuMemsetD32Async(address, 1, 1024, stream));
    MUST(world, cu.cuMemFreeAsync(address, stream));
}

static void churn_stream(struct world *world)
{
    CUstream stream;
    MUST(world, cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    use_stream(world, stream);
    destroy_stream(world, stream);
}

struct turn {
    struct world *world;
    CUdeviceptr address;
};

/* Submits no work: the simulated device keeps a worker for each stream that had some, and a thread's own stream ends with the
 * context. */
static void *in_thread(void *argument)
{
    struct turn *turn = argument;
    MUST(turn->world, cu.cuCtxSetCurrent(churned));
    MUST(turn->world, cu.cuMemAllocAsync(&turn->address, 4096, CU_STREAM_PER_THREAD));
    return NULL;
}

static void churn_thread(struct world *world)
{
    struct turn turn = {.world = world};
    pthread_t id;
    if (pthread_create(&id, NULL, in_thread, &turn) != 0)
        fail(world, "no thread could be started");
    pthread_join(id, NULL);
    MUST(world, cu.cuMemFree(turn.address));
}

static void churn_context(struct world *world)
{
    CUcontext context = context_make(world, 0);
    CUdeviceptr address;
    MUST(world, cu.cuCtxSetCurrent(context));
    MUST(world, cu.cuMemAlloc(&address, 4096));
    if (address % 8192)
        MUST(world, cu.cuMemFree(address));
    MUST(world, cu.cuCtxDestroy(context));
    MUST(world, cu.cuCtxSetCurrent(churned));
}

/* Creates and ends hundreds of streams, threads or contexts one after the other: later ones must take no memory that the first
 * ones did not. One doubling of a table is allowed. */
int step_churn(struct world *world)
{
    enum { ROUND = 80, ROUNDS = 3, PAUSE = 8, CONTEXTS_IN_A_ROW = 140 };
    static const struct {
        const char *name;
        void (*once)(struct world *world);
        size_t most; /* bytes per turn: what the simulated device keeps of a context or of a thread's stream */
        unsigned turns;
    } kinds[] = {{"streams", churn_stream, 1536, ROUND},
                 {"threads", churn_thread, 3072, ROUND},
                 {"contexts", churn_context, 6144, CONTEXTS_IN_A_ROW}};
    unsigned kind = pick(world, 3);
    if (world->is_shared || world->depth || settings.is_alone || !sim.fail_call || world->lacks ||
        ((settings.without & FEATURE_CHURN) && kinds[kind].once != churn_context))
        return 0;
    churned = context_make(world, 0);
    MUST(world, cu.cuCtxSetCurrent(churned));
    size_t grown = SIZE_MAX, most = kinds[kind].turns * kinds[kind].most;
    say(world, "churn: %s", kinds[kind].name);
    for (unsigned round = 0; round < ROUNDS && grown > most; round++) {
        size_t before = host_bytes();
        for (unsigned i = 0; i < kinds[kind].turns; i++) {
            kinds[kind].once(world);
            if (i % PAUSE == 0)
                MUST(world, cu.cuCtxSynchronize());
        }
        MUST(world, cu.cuCtxSynchronize());
        size_t after = host_bytes();
        grown = after > before ? after - before : 0;
    }
    if (grown > most)
        fail(world, "%u %s made and destroyed, and the host's memory has grown by %zu bytes", kinds[kind].turns,
             kinds[kind].name, grown);
    MUST(world, cu.cuCtxDestroy(churned));
    context_enter(world, 0);
    return 1;
}
