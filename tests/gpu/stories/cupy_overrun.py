"""A CuPy RawKernel that reads one float past its input of 1000."""

import sys
import time

import cupy

k_oob = cupy.RawKernel(
    """
extern "C" __global__ void k_oob(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) { // the bug: i < n would be right
        float v = x[i];
        y[i] = v + 1.0f;
    }
}
""",
    "k_oob",
    options=("-lineinfo",),
)
x = cupy.zeros(1000, dtype=cupy.float32)
y = cupy.zeros(1000, dtype=cupy.float32)
k_oob((8,), (128,), (x, y, cupy.int32(999)))
cupy.cuda.Device().synchronize()
print("launch", time.time(), file=sys.stderr, flush=True)
k_oob((8,), (128,), (x, y, cupy.int32(1000)))
cupy.cuda.Device().synchronize()  # RAISES
print("not reached")
