/* Copies and sets of all forms, within one device and between two. */
#include "contract.h"

#define BYTES 4096u
#define COPIES                                                                                                                 \
    "cuda.h, cuMemcpy and its relatives: unified addressing infers the location of both ends; nothing is said of peer access"

/* Each form copies BYTES bytes of `from` to `to`, both on a device. Contexts: theirs. */
struct pair {
    CUdeviceptr to, from;
    CUcontext to_context, from_context;
    CUstream stream;
};

#define ROWS(type)                                                                                                             \
    {                                                                                                                          \
        .srcMemoryType = type, .srcDevice = pair->from, .srcPitch = BYTES / 4, .dstMemoryType = type, .dstDevice = pair->to,   \
        .dstPitch = BYTES / 4, .WidthInBytes = BYTES / 4, .Height = 4                                                          \
    }
#define CONTEXTS .srcContext = pair->from_context, .dstContext = pair->to_context
#define PLANES(...)                                                                                                            \
    {                                                                                                                          \
        .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = pair->from, .srcPitch = BYTES / 8, .srcHeight = 4,                 \
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = pair->to, .dstPitch = BYTES / 8, .dstHeight = 4,                   \
        .WidthInBytes = BYTES / 8, .Height = 4, .Depth = 2, ##__VA_ARGS__                                                      \
    }

static CUresult copy_batch(const struct pair *pair)
{
    CUdeviceptr to[2] = {pair->to, pair->to + BYTES / 2}, from[2] = {pair->from, pair->from + BYTES / 2};
    size_t sizes[2] = {BYTES / 2, BYTES / 2}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    return cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, pair->stream);
}

static CUresult copy_batch_3d(const struct pair *pair)
{
    CUDA_MEMCPY3D_BATCH_OP copy = {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
                                   .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER},
                                   .extent = {BYTES, 1, 1},
                                   .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    copy.src.op.ptr.ptr = pair->from;
    copy.dst.op.ptr.ptr = pair->to;
    return cuMemcpy3DBatchAsync(1, &copy, 0, pair->stream);
}

static CUresult copy_by_node(const struct pair *pair)
{
    const CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = pair->from,
                                .srcPitch = BYTES,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = pair->to,
                                .dstPitch = BYTES,
                                .WidthInBytes = BYTES,
                                .Height = 1,
                                .Depth = 1};
    CUgraphNode added;
    CUgraphExec executable;
    CUcontext here;
    CUgraph graph = graph_new();
    MUST(cuCtxGetCurrent(&here));
    CUresult result = cuGraphAddMemcpyNode(&added, graph, NULL, 0, &copy, here);
    if (result == CUDA_SUCCESS)
        result = cuGraphInstantiate(&executable, graph, 0);
    return result == CUDA_SUCCESS ? cuGraphLaunch(executable, pair->stream) : result;
}

static CUresult copy_captured(const struct pair *pair)
{
    CUgraph graph = NULL;
    CUgraphExec executable;
    capture_begin(pair->stream);
    CUresult result = cuMemcpyDtoDAsync(pair->to, pair->from, BYTES, pair->stream);
    CUresult end = cuStreamEndCapture(pair->stream, &graph);
    if (result == CUDA_SUCCESS)
        result = end;
    if (result == CUDA_SUCCESS)
        result = cuGraphInstantiate(&executable, graph, 0);
    return result == CUDA_SUCCESS ? cuGraphLaunch(executable, pair->stream) : result;
}

#define TO_FROM pair->to, pair->from
#define FORMS(X)                                                                                                               \
    X(plain, "cuMemcpy", cuMemcpy(TO_FROM, BYTES))                                                                             \
    X(async, "cuMemcpyAsync", cuMemcpyAsync(TO_FROM, BYTES, pair->stream))                                                     \
    X(d_to_d, "cuMemcpyDtoD", cuMemcpyDtoD(TO_FROM, BYTES))                                                                    \
    X(d_to_d_async, "cuMemcpyDtoDAsync", cuMemcpyDtoDAsync(TO_FROM, BYTES, pair->stream))                                      \
    X(peer, "cuMemcpyPeer", cuMemcpyPeer(pair->to, pair->to_context, pair->from, pair->from_context, BYTES))                   \
    X(peer_async, "cuMemcpyPeerAsync",                                                                                         \
      cuMemcpyPeerAsync(pair->to, pair->to_context, pair->from, pair->from_context, BYTES, pair->stream))                      \
    X(two_d, "cuMemcpy2D", cuMemcpy2D(&(CUDA_MEMCPY2D)ROWS(CU_MEMORYTYPE_DEVICE)))                                             \
    X(two_d_unified, "cuMemcpy2DAsync, unified", cuMemcpy2DAsync(&(CUDA_MEMCPY2D)ROWS(CU_MEMORYTYPE_UNIFIED), pair->stream))   \
    X(two_d_unaligned, "cuMemcpy2DUnaligned", cuMemcpy2DUnaligned(&(CUDA_MEMCPY2D)ROWS(CU_MEMORYTYPE_DEVICE)))                 \
    X(three_d, "cuMemcpy3D", cuMemcpy3D(&(CUDA_MEMCPY3D)PLANES()))                                                             \
    X(three_d_peer, "cuMemcpy3DPeer", cuMemcpy3DPeer(&(CUDA_MEMCPY3D_PEER)PLANES(CONTEXTS)))                                   \
    X(three_d_peer_async, "cuMemcpy3DPeerAsync", cuMemcpy3DPeerAsync(&(CUDA_MEMCPY3D_PEER)PLANES(CONTEXTS), pair->stream))     \
    X(batch, "cuMemcpyBatchAsync", copy_batch(pair))                                                                           \
    X(batch_3d, "cuMemcpy3DBatchAsync", copy_batch_3d(pair))                                                                   \
    X(node, "a copy node", copy_by_node(pair))                                                                                 \
    X(captured, "a captured copy", copy_captured(pair))

#define FORM(name, text, call)                                                                                                 \
    static CUresult name(const struct pair *pair)                                                                              \
    {                                                                                                                          \
        return call;                                                                                                           \
    }
FORMS(FORM)

static const struct {
    const char *name;
    CUresult (*copy)(const struct pair *pair);
} forms[] = {
#define ROW(name, text, call) {text, name},
    FORMS(ROW)};

static CUdeviceptr fresh(CUcontext context, int value)
{
    MUST(cuCtxPushCurrent(context));
    CUdeviceptr pointer = plain_memory(BYTES);
    MUST(cuMemsetD8(pointer, (unsigned char)value, BYTES));
    MUST(cuCtxSynchronize());
    MUST(cuCtxPopCurrent(&context));
    return pointer;
}

static void see(CUcontext owner, CUdeviceptr pointer)
{
    MUST(cuCtxPushCurrent(owner));
    MUST(cuCtxSynchronize());
    printf("%s\n", ends_of(pointer, BYTES));
    MUST(cuCtxPopCurrent(&owner));
}

/* Each form with buffers of its own: what one call makes possible does not help the next. */
static void play_forms(CUcontext here, CUcontext to, CUcontext from)
{
    MUST(cuCtxSetCurrent(here));
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct pair pair = {fresh(to, 1), fresh(from, 5), to, from, stream_new()};
        CUresult result = forms[i].copy(&pair);
        printf("%s: %s, ", forms[i].name, result_name(result));
        MUST(cuCtxSynchronize());
        see(to, pair.to);
    }
}

PROMISE(copies_within, 1, COPIES)
{
    CUcontext context = primary(0);
    play_forms(context, context, context);
}

PROMISE(copies_to_other, 2, COPIES)
{
    CUcontext first = primary(0), second = primary(1);
    play_forms(first, second, first);
}

PROMISE(copies_from_other, 2, COPIES)
{
    CUcontext first = primary(0), second = primary(1);
    play_forms(first, first, second);
}

PROMISE(copies_on_other, 2, COPIES)
{
    CUcontext first = primary(0), second = primary(1);
    play_forms(first, second, second);
}

/* ---- with the host ---- */

static void play_host(CUcontext here, CUcontext owner)
{
    static unsigned char host[BYTES];
    void *pinned;
    MUST(cuCtxSetCurrent(here));
    MUST(cuMemHostAlloc(&pinned, BYTES, CU_MEMHOSTALLOC_PORTABLE));
    CUstream stream = stream_new();
#define FROM_DEVICE(call)                                                                                                      \
    do {                                                                                                                       \
        CUdeviceptr device = fresh(owner, 5);                                                                                  \
        memset(host, 0, BYTES);                                                                                                \
        memset(pinned, 0, BYTES);                                                                                              \
        CUresult result = call;                                                                                                \
        MUST(cuCtxSynchronize());                                                                                              \
        printf("%s: %s, %u\n", #call, result_name(result), host[BYTES - 1] | ((unsigned char *)pinned)[BYTES - 1]);            \
    } while (0)
    FROM_DEVICE(cuMemcpyDtoH(host, device, BYTES));
    FROM_DEVICE(cuMemcpyDtoHAsync(host, device, BYTES, stream));
    FROM_DEVICE(cuMemcpyDtoHAsync(pinned, device, BYTES, stream));
    FROM_DEVICE(cuMemcpy((CUdeviceptr)(uintptr_t)host, device, BYTES));
    FROM_DEVICE(cuMemcpyAsync((CUdeviceptr)(uintptr_t)pinned, device, BYTES, stream));
#define TO_DEVICE(call)                                                                                                        \
    do {                                                                                                                       \
        CUdeviceptr device = fresh(owner, 1);                                                                                  \
        memset(host, 6, BYTES);                                                                                                \
        memset(pinned, 6, BYTES);                                                                                              \
        CUresult result = call;                                                                                                \
        MUST(cuCtxSynchronize());                                                                                              \
        printf("%s: %s, ", #call, result_name(result));                                                                        \
        see(owner, device);                                                                                                    \
    } while (0)
    TO_DEVICE(cuMemcpyHtoD(device, host, BYTES));
    TO_DEVICE(cuMemcpyHtoDAsync(device, host, BYTES, stream));
    TO_DEVICE(cuMemcpyHtoDAsync(device, pinned, BYTES, stream));
    TO_DEVICE(cuMemcpy(device, (CUdeviceptr)(uintptr_t)host, BYTES));
    TO_DEVICE(cuMemsetD8(device, 6, BYTES));
    TO_DEVICE(cuMemsetD8Async(device, 6, BYTES, stream));
    TO_DEVICE(cuMemsetD32(device, 0x06060606, BYTES / 4));
    TO_DEVICE(cuMemsetD2D8(device, BYTES / 4, 6, BYTES / 4, 4));
}

PROMISE(copies_host, 1, COPIES)
{
    CUcontext context = primary(0);
    play_host(context, context);
}

PROMISE(copies_host_other, 2, COPIES)
{
    CUcontext first = primary(0), second = primary(1);
    play_host(first, second);
}

PROMISE(copies_host_peer, 2, "cuda.h, cuCtxEnablePeerAccess: memory of the peer is accessible from the current context")
{
    CUcontext first = primary(0), second = primary(1);
    MUST(cuCtxSetCurrent(first));
    ASK(cuCtxEnablePeerAccess(second, 0));
    ASK(cuCtxEnablePeerAccess(second, 0));
    play_host(first, second);
    ASK(cuCtxDisablePeerAccess(second));
    ASK(cuCtxDisablePeerAccess(second));
}

PROMISE(copy_then_set_other, 2, COPIES)
{
    CUcontext first = primary(0), second = primary(1);
    CUdeviceptr mine = fresh(first, 1), other = fresh(second, 5);
    MUST(cuCtxSetCurrent(first));
    ASK(cuMemcpy(mine, other, BYTES));
    ASK(cuMemsetD8(other, 3, BYTES));
    MUST(cuCtxSynchronize());
    see(second, other);
}

PROMISE(kernel_on_peer, 2, "cuda.h, cuCtxEnablePeerAccess: memory of the peer is accessible from the current context")
{
    CUcontext first = primary(0), second = primary(1);
    CUdeviceptr other = fresh(second, 5), later;
    MUST(cuCtxSetCurrent(first));
    ASK(cuCtxEnablePeerAccess(second, 0));
    fill(NULL, other, BYTES, 9);
    ASK(cuCtxSynchronize());
    see(second, other);
    later = fresh(second, 5);
    fill(NULL, later, BYTES, 9);
    ASK(cuCtxSynchronize());
    see(second, later);
}

PROMISE(copies_wrong, 1, "cuda.h, cuMemcpy: INVALID_VALUE for ranges that are not allocated")
{
    static unsigned char host[BYTES];
    CUstream stream = stream_new();
    CUdeviceptr pointer = plain_memory((size_t)32 << 20);
    MUST(cuMemFree(pointer));
    ASK(cuMemcpyDtoH(host, pointer, BYTES));
    ASK(cuMemcpyHtoD(pointer, host, BYTES));
    ASK(cuMemsetD8(pointer, 1, BYTES));
    ASK(cuMemsetD8Async(pointer, 1, BYTES, stream));
    ASK(cuMemcpyDtoH(host, 0, BYTES));
    ASK(cuMemcpyDtoH(host, 0, 0));
    ASK(cuStreamSynchronize(stream));
}
