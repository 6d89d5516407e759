/* Peer access: which GPU may access which other GPU's buffers. */
#include "internal.h"

#include "base/output.h"
#include "base/options.h"

void share(int device, int peer)
{
    static int has_warned; /* atomic */
    if (device == peer)
        return;
    if (preload_options->peers != PEERS_OFF)
        heap_share(device, peer); /* fast if already done */
    else if (!__atomic_exchange_n(&has_warned, 1, __ATOMIC_RELAXED))
        output_say("cufence: GPU %d gets no access to the buffers of GPU %d, because peers=off says so\n", peer, device);
}

/* The current context's device gets access to memory allocated in the other context. */
void peer_enabled(CUcontext context)
{
    struct context *peer = is_active() ? context_current() : NULL;
    struct context *owner = peer ? context_of(context) : NULL;
    if (owner)
        share(owner->device, peer->device);
}
