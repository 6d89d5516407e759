/* What the stories of freed buffers share. */
#pragma once

#include "program.h"

#define BYTES 4096u
#define WORDS (BYTES / 4)
#define TIMES 60

static CUdeviceptr kept; /* never freed */

static inline CUdeviceptr allocate(size_t bytes, CUstream stream)
{
    CUdeviceptr buffer;
    MUST(cu.cuMemAllocAsync(&buffer, bytes, stream));
    MUST(cu.cuMemsetD32Async(buffer, 0, bytes / 4, stream));
    return buffer;
}

static inline CUgraphExec executable_of(CUgraph graph)
{
    CUgraphExec executable;
    MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
}
