"""Two neighbours in a memory pool that the program makes, of CuPy (the first argument); a kernel reads one float past the first.
With the second argument "right" it does not."""

import sys
import time

import cupy

cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)

k_past = cupy.RawKernel(
    """
extern "C" __global__ void k_past(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i % 1024] = x[i] + 1.0f;
}
""",
    "k_past",
    options=("-lineinfo",),
)
for step in range(20):  # pieces come back and are handed out again
    arrays = [cupy.full(1024, step, dtype=cupy.float32) for _ in range(3)]
    k_past((9,), (128,), (arrays[0], arrays[1], cupy.int32(1024)))
    assert float(arrays[1].sum()) == 1024 * (step + 1) and float(arrays[2][0]) == step
x, y = cupy.zeros(1024, dtype=cupy.float32), cupy.zeros(1024, dtype=cupy.float32)
cupy.cuda.Device().synchronize()
print("launch", time.time(), file=sys.stderr, flush=True)
k_past((9,), (128,), (x, y, cupy.int32(1024 if sys.argv[2] == "right" else 1025)))
cupy.cuda.Device().synchronize()  # RAISES
print("neighbours are as they were:", float(y.sum()) == 1024)
