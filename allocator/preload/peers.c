/*
 * Which GPU may access which other GPU's buffers. CUDA lets a program copy between the memory of any two GPUs; a mapping of
 * ours must be accessible to the GPU that copies. So access is given where a copy needs it, and where the program asks for it,
 * per device and not per pool, and is never taken back. What the program itself has asked for is kept apart: only that allows
 * sets.
 */
#include "preload_internal.h"

#include "base/options.h"
#include "base/output.h"

#define DEVICES 64

static uint64_t allowed[DEVICES]; /* atomic; by owner: the peers that the program has given access */

static void allow(int device, int peer, int is_allowed)
{
    if ((unsigned)device >= DEVICES || (unsigned)peer >= DEVICES)
        return;
    if (is_allowed)
        __atomic_or_fetch(&allowed[device], UINT64_C(1) << peer, __ATOMIC_RELAXED);
    else
        __atomic_and_fetch(&allowed[device], ~(UINT64_C(1) << peer), __ATOMIC_RELAXED);
}

int peer_may_access(int device, int peer)
{
    return device == peer || (unsigned)device >= DEVICES || (unsigned)peer >= DEVICES ||
           (__atomic_load_n(&allowed[device], __ATOMIC_RELAXED) >> peer & 1);
}

void peer_reaches(CUdeviceptr address, int peer)
{
    struct heap_range range;
    if (peer >= 0 && heap_owns(address) && heap_range_of(address, &range) && range.device != peer)
        heap_share(range.device, peer); /* fast if already done */
}

static void share(int device, int peer)
{
    static int has_warned; /* atomic */
    if (device == peer)
        return;
    if (preload_options->peers != PEERS_OFF)
        heap_share(device, peer);
    else if (!__atomic_exchange_n(&has_warned, 1, __ATOMIC_RELAXED))
        output_say("cufence: GPU %d gets no access to the buffers of GPU %d, because peers=off says so\n", peer, device);
    allow(device, peer, 1);
}

void pool_shared(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    unsigned owner = is_active() ? pool_of_handle(handle) : 0;
    for (size_t i = 0; owner && i < count; i++) {
        if (map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            share(pool_device(owner, NULL), map[i].location.id);
    }
}

/* The current context's device gets access to memory allocated in the other context, or is not allowed it any more. */
void peer_changed(CUcontext context, int is_allowed)
{
    struct context *peer = is_active() ? context_current() : NULL;
    struct context *owner = peer ? context_of(context) : NULL;
    if (owner && is_allowed)
        share(owner->device, peer->device);
    else if (owner)
        allow(owner->device, peer->device, 0);
}
