/* Kernels that a program puts into graphs itself, or changes there. Each is recorded with its arguments, as a kernel is that a
 * stream's capture puts there. */
#include "internal.h"

#include "launch/launch.h"

/* CUDA_KERNEL_NODE_PARAMS_v1, _v2 and _v3 begin alike; kernel->kern, which only the later ones have, is passed as `other`. */
#define CALL_OF(kernel, other)                                                                                                 \
    {                                                                                                                          \
        .function = (kernel)->func ? (kernel)->func : (CUfunction)(other),                                                     \
        .grid = {(kernel)->gridDimX, (kernel)->gridDimY, (kernel)->gridDimZ},                                                  \
        .block = {(kernel)->blockDimX, (kernel)->blockDimY, (kernel)->blockDimZ}, .shared_bytes = (kernel)->sharedMemBytes,    \
        .parameters = (kernel)->kernelParams, .extra = (kernel)->extra, .frame = __builtin_frame_address(0)                    \
    }

static CUresult noted(CUresult result, const struct launch_call *call)
{
    struct context *context = is_active() ? context_current() : NULL;
    if (result == CUDA_SUCCESS && context)
        launch_record_node(context, call);
    return result;
}

CUresult hook_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,
                                   const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    CUresult result = real.cuGraphAddKernelNode(node, graph, nodes, count, kernel);
    return kernel ? noted(result, &(struct launch_call)CALL_OF(kernel, NULL)) : result;
}

CUresult hook_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,
                                      const CUDA_KERNEL_NODE_PARAMS_v2 *kernel)
{
    CUresult result = real.cuGraphAddKernelNode_v2(node, graph, nodes, count, kernel);
    return kernel ? noted(result, &(struct launch_call)CALL_OF(kernel, kernel->kern)) : result;
}

CUresult hook_cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    CUresult result = real.cuGraphKernelNodeSetParams(node, kernel);
    return kernel ? noted(result, &(struct launch_call)CALL_OF(kernel, NULL)) : result;
}

CUresult hook_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *kernel)
{
    CUresult result = real.cuGraphKernelNodeSetParams_v2(node, kernel);
    return kernel ? noted(result, &(struct launch_call)CALL_OF(kernel, kernel->kern)) : result;
}

CUresult hook_cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    CUresult result = real.cuGraphExecKernelNodeSetParams(executable, node, kernel);
    return kernel ? noted(result, &(struct launch_call)CALL_OF(kernel, NULL)) : result;
}

CUresult hook_cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v2 *kernel)
{
    CUresult result = real.cuGraphExecKernelNodeSetParams_v2(executable, node, kernel);
    return kernel ? noted(result, &(struct launch_call)CALL_OF(kernel, kernel->kern)) : result;
}

/* The same for nodes of any kind, some of which order streams. */
#define NOTED(call, parameters)                                                                                                \
    CUresult result = call;                                                                                                    \
    if (order_is_wanted() && result == CUDA_SUCCESS)                                                                           \
        order_node_added(parameters);                                                                                          \
    return (parameters) && (parameters)->type == CU_GRAPH_NODE_TYPE_KERNEL                                                     \
               ? noted(result, &(struct launch_call)CALL_OF(&(parameters)->kernel, (parameters)->kernel.kern))                 \
               : result

CUresult hook_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,
                             CUgraphNodeParams *parameters)
{
    NOTED(real.cuGraphAddNode(node, graph, nodes, count, parameters), parameters);
}

CUresult hook_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
                                size_t count, CUgraphNodeParams *parameters)
{
    NOTED(real.cuGraphAddNode_v2(node, graph, nodes, edges, count, parameters), parameters);
}

CUresult hook_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *parameters)
{
    NOTED(real.cuGraphNodeSetParams(node, parameters), parameters);
}

CUresult hook_cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraphNodeParams *parameters)
{
    NOTED(real.cuGraphExecNodeSetParams(executable, node, parameters), parameters);
}
