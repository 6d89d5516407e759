/* Functions of the driver that this program needs besides those of tests/sim/programs/driver.h. */
#define MORE_DRIVER_FUNCTIONS(X)                                                                                               \
    X(cuStreamAddCallback)                                                                                                     \
    X(cuStreamWaitValue32)                                                                                                     \
    X(cuStreamWriteValue32)                                                                                                    \
    X(cuGraphAddKernelNode)                                                                                                    \
    X(cuGraphExecKernelNodeSetParams)                                                                                          \
    X(cuMemcpyPeer)                                                                                                            \
    X(cuMemcpyPeerAsync)                                                                                                       \
    X(cuMemcpy2DUnaligned)                                                                                                     \
    X(cuMemcpy3DAsync)                                                                                                         \
    X(cuMemcpy2DAsync)                                                                                                         \
    X(cuMemsetD16Async)
