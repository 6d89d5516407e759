"""A kernel of numba reads one float past its input of 1000. With the argument "right" it does not."""

import importlib.util
import sys

import numpy as np

if importlib.util.find_spec("_numba_cuda_redirector"):  # what numba-cuda's .pth does, for a folder on PYTHONPATH
    import _numba_cuda_redirector  # noqa: F401
from numba import cuda


@cuda.jit(lineinfo=True)
def k_oob(x, y, n):
    i = cuda.grid(1)
    if i <= n:  # the bug: i < n would be right
        v = x[i]  # FAULT
        y[i] = v + 1.0


x = cuda.to_device(np.zeros(1000, np.float32))
y = cuda.device_array(1000, np.float32)
k_oob[8, 128](x, y, 999)
cuda.synchronize()
k_oob[8, 128](x, y, 999 if sys.argv[1] == "right" else 1000)
cuda.synchronize()  # RAISES
print("done")
