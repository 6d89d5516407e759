// A pool that hands out pieces of one allocation and tells tools of them by NVTX's memory extension. It knows nothing of
// cufence. The first argument says what is wrong:
//   clean   nothing: pieces are written and summed up, given back and handed out again, on a stream of their own
//   past    two floats are written past a piece of 1000 bytes, into what the pool rounds it up by
//   late    a piece is written to after it was given back
#include "check.h"

#include <cstring>
#include <nvtx3/nvToolsExtMem.h>

#define BYTES (1 << 20)
#define FLOATS 250

__global__ void fill(float *piece, int count, float value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        piece[i] = value; // WRITES
}

__global__ void add_up(const float *piece, int count, float *sum)
{
    for (int i = 0; i < count; i++)
        *sum += piece[i];
}

static char *memory;
static nvtxDomainHandle_t domain;
static nvtxMemHeapHandle_t heap;

static void open_pool()
{
    CALL(cudaMalloc(&memory, BYTES));
    nvtxMemVirtualRangeDesc_t range = {BYTES, memory};
    nvtxMemHeapDesc_t desc = {};
    desc.extCompatID = NVTX_EXT_COMPATID_MEM;
    desc.structSize = sizeof desc;
    desc.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    desc.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    desc.typeSpecificDescSize = sizeof range;
    desc.typeSpecificDesc = &range;
    desc.messageType = NVTX_MESSAGE_TYPE_ASCII;
    desc.message.ascii = "slab";
    domain = nvtxDomainCreateA("pools");
    heap = nvtxMemHeapRegister(domain, &desc);
}

// Slot i, of 1024 bytes.
static float *take(int i)
{
    nvtxMemVirtualRangeDesc_t range = {FLOATS * sizeof(float), memory + i * 1024};
    nvtxMemRegionsRegisterBatch_t batch = {};
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.heap = heap;
    batch.regionCount = 1;
    batch.regionDescElementSize = sizeof range;
    batch.regionDescElements = &range;
    nvtxMemRegionsRegister(domain, &batch);
    return (float *)(memory + i * 1024);
}

static void give_back(float *piece)
{
    nvtxMemRegionRef_t ref = {piece};
    nvtxMemRegionsUnregisterBatch_t batch = {};
    batch.extCompatID = NVTX_EXT_COMPATID_MEM;
    batch.structSize = sizeof batch;
    batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    batch.refCount = 1;
    batch.refElementSize = sizeof ref;
    batch.refElements = &ref;
    nvtxMemRegionsUnregister(domain, &batch);
}

int main(int argc, char **arguments)
{
    const char *wrong = argc > 1 ? arguments[1] : "clean";
    cudaStream_t stream;
    float *sum, found;
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CALL(cudaMalloc(&sum, sizeof *sum));
    open_pool();
    for (int turn = 0; turn < 50; turn++) {
        float *first = take(0), *second = take(1);
        CALL(cudaMemsetAsync(sum, 0, sizeof *sum, stream));
        fill<<<1, 256, 0, stream>>>(first, FLOATS, 1);
        fill<<<1, 256, 0, stream>>>(second, FLOATS, 2);
        add_up<<<1, 1, 0, stream>>>(first, FLOATS, sum);
        add_up<<<1, 1, 0, stream>>>(second, FLOATS, sum);
        give_back(first); // its kernels may be under way
        give_back(second);
        CALL(cudaMemcpyAsync(&found, sum, sizeof found, cudaMemcpyDeviceToHost, stream));
        CALL(cudaStreamSynchronize(stream));
        EXPECT(found == 3 * FLOATS);
    }
    float *piece = take(0);
    take(1);
    fill<<<1, 256, 0, stream>>>(piece, strcmp(wrong, "past") ? FLOATS : FLOATS + 2, 1); // PAST
    CALL(cudaStreamSynchronize(stream));
    if (!strcmp(wrong, "late")) {
        give_back(piece);
        fill<<<1, 256, 0, stream>>>(piece, 1, 1); // LATE
        CALL(cudaStreamSynchronize(stream));
    }
    printf("done\n");
    return 0;
}
