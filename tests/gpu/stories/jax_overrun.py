"""A JAX program whose custom call (jax_kernel.cu, built with nvcc and bound by jax.ffi) reads one float past its input."""

import ctypes
import subprocess
import sys
import time

import jax
import numpy as np

nvcc = sys.argv[1]
settings = ["-shared", "-w", "-Xcompiler", "-fPIC", "-std=c++17", "-lineinfo", "-arch=native", "-I", jax.ffi.include_dir()]
subprocess.run([nvcc, *settings, "-o", "./jax_kernel.so", "jax_kernel.cu"], check=True)
library = ctypes.CDLL("./jax_kernel.so")
jax.ffi.register_ffi_target("add_one", jax.ffi.pycapsule(library.AddOne), platform="CUDA")


@jax.jit(static_argnames="surplus")
def add_one(x, surplus):
    return jax.ffi.ffi_call("add_one", jax.ShapeDtypeStruct(x.shape, x.dtype))(x, surplus=np.int64(surplus)) * 2


x = jax.device_put(np.zeros(1024, np.float32))  # a multiple of 256 bytes: XLA's alignment leaves no slack
assert float(add_one(x, surplus=0)[1023]) == 2.0
print("right without a surplus", flush=True)
print("launch", time.time(), file=sys.stderr, flush=True)
y = add_one(x, surplus=1)
y.block_until_ready()  # RAISES
print("not reached")
