"""The pools of CuPy are bypassed: with a stand-in for the library, and with the library where it is.

CUFENCE_TEST_POOLS_PYTHON names a Python that has the real one (cupy-cuda13x): without a GPU it can be imported."""

from __future__ import annotations

import os
import subprocess
import sys

import standin

POOLS_PYTHON = os.environ.get("CUFENCE_TEST_POOLS_PYTHON", sys.executable)

CUPY = """
import contextlib, sys, types
chosen = None
def _set(allocator=None):
    global chosen
    chosen = allocator
@contextlib.contextmanager
def _using(allocator=None):
    before = chosen
    _set(allocator)
    yield
    _set(before)
class MemoryPool:
    def __init__(self, allocator=None): pass
    def malloc(self, size): return "from the pool"
def _malloc(size): return size, "cudaMalloc"
def malloc_async(size): return size, "cudaMallocAsync"
cuda = types.SimpleNamespace(set_allocator=_set, get_allocator=lambda: chosen, malloc_async=malloc_async, MemoryPool=MemoryPool)
cuda.using_allocator, cuda.malloc_managed = _using, malloc_async
cuda.memory = types.SimpleNamespace(set_allocator=_set, MemoryPool=MemoryPool, _malloc=_malloc)
_pool = MemoryPool()
def get_default_memory_pool(): return _pool
_set(_pool.malloc)
"""

USE_CUPY = """
import cupy
cuda = cupy.cuda
assert cuda.get_allocator() is cuda.malloc_async
assert cuda.memory.MemoryPool is type(cupy.get_default_memory_pool()), "compiled modules look for the type by this name"
cuda.set_allocator(cupy.get_default_memory_pool().malloc)
assert cuda.get_allocator() is cuda.malloc_async, "the pool that was there before"
with cuda.using_allocator(cupy.get_default_memory_pool().malloc):
    assert cuda.get_allocator() is cuda.malloc_async
asked = []
def below(size):
    asked.append(size)
    return cuda.malloc_managed(size)
pool = cuda.MemoryPool(below)
cuda.set_allocator(pool.malloc)
assert isinstance(pool, cuda.MemoryPool)
try:
    cuda.get_allocator()(1000)
except Exception:  # no device
    pass
assert asked == [1000], asked
cuda.set_allocator(below)
assert cuda.get_allocator() is below, "an allocator that is no pool's"
"""


class Pools(standin.Patched):
    def test_cupy(self) -> None:
        standin.write_files(self.folder, {"cupy.py": CUPY})
        self.run_code(USE_CUPY)

    def test_real_cupy(self) -> None:
        if subprocess.run([POOLS_PYTHON, "-c", "import cupy"], capture_output=True, check=False).returncode != 0:
            self.skipTest(f"{POOLS_PYTHON} has no cupy (CUFENCE_TEST_POOLS_PYTHON names another)")
        self.run_code(USE_CUPY, python=POOLS_PYTHON)

    def test_another_version_is_said(self) -> None:
        standin.write_files(self.folder, {"cupy.py": ""})
        self.run_code(
            """
            import warnings
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                import cupy
            assert "the pools of this version of cupy" in str(said[0].message), said
            """
        )
