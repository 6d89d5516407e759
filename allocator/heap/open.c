/* Opens the heap. */
#include "heap_internal.h"

#include "base/aside.h"
#include "base/options.h"
#include "vmm/physical.h"

struct sharing {
    int device, peer;
};

static void share(void *argument)
{
    const struct sharing *sharing = argument;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    int can = 0;
    if (driver->cuDeviceCanAccessPeer && driver->cuDeviceCanAccessPeer(&can, sharing->peer, sharing->device) == CUDA_SUCCESS &&
        can) {
        driver->cuThreadExchangeStreamCaptureMode(&mode);
        arena_share(sharing->device, sharing->peer);
        driver->cuThreadExchangeStreamCaptureMode(&mode);
    }
}

void heap_share(int device, int peer)
{
    struct sharing sharing = {device, peer};
    if (!arena_is_shared(device, peer))
        aside_call(share, &sharing);
}

static void share_everything(void)
{
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    for (int device = 0; device < devices; device++) {
        for (int peer = 0; peer < devices; peer++)
            heap_share(device, peer);
    }
}

cufence_status heap_open(const struct options *options)
{
    heap_options = options;
    heap_policies = (struct heap_policies){
        .give_back = pack_give_back, .forget = slack_forget, .end = twins_end, .list_gone = slack_list_gone};
    heap_unmark(RARE_OPTIONS);
    heap_mark((options->uaf == UAF_STRICT ? RARE_STRICT : 0) | (options->poison != FILL_OFF ? RARE_FILL_FREED : 0) |
              (options->fill != FILL_OFF ? RARE_FILL_FRESH : 0) | (options->side == SIDE_ALTERNATE ? RARE_ALTERNATES : 0) |
              (options->small == SMALL_PACK ? RARE_PACKING : 0));
    passed_open();
    cufence_status status = space_open();
    if (status != CUFENCE_OK)
        return status;
    status = worker_start();
    if (status != CUFENCE_OK)
        space_close();
    else if (options->peers == PEERS_ON)
        share_everything();
    return status;
}
