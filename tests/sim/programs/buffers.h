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

/* Plays a case with a stream and a buffer of its own. Returns the program's exit status. */
static inline int play_with_buffer(int count, char **arguments, CUcontext *here, CUstream *first)
{
    start();
    MUST(cu.cuCtxGetCurrent(here));
    *first = new_stream();
    MUST(cu.cuMemAlloc(&kept, BYTES));
    play_case(count, arguments);
    return say("the end", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
