"""The pools of CuPy and RMM are bypassed: with stand-ins for the libraries, and with the libraries where they are.

CUFENCE_TEST_POOLS_PYTHON names a Python that has the real ones (rmm-cu12, cupy-cuda13x): without a GPU they can be imported,
and what reaches the resource below a pool be seen."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import standin

POOLS_PYTHON = os.environ.get("CUFENCE_TEST_POOLS_PYTHON", sys.executable)

# What a pool takes at once, and what RMM rounds to in one.
RMM = """
import sys, types
class DeviceMemoryResource: pass
class UpstreamResourceAdaptor(DeviceMemoryResource):
    def __init__(self, upstream_mr): self.upstream = upstream_mr
    def get_upstream(self): return self.upstream
class CallbackMemoryResource(DeviceMemoryResource):
    def __init__(self, take, give): self.allocate, self.deallocate = take, give
class LimitingResourceAdaptor(UpstreamResourceAdaptor):
    def __new__(cls, upstream_mr, allocation_limit):
        self = object.__new__(cls)
        self.upstream, self.limit, self.bytes = upstream_mr, allocation_limit, 0
        return self
    def __init__(self, upstream_mr, allocation_limit): pass
    def get_allocated_bytes(self): return self.bytes
    def allocate(self, size, stream=None):
        self.bytes += size
        return self.upstream.allocate(size, stream)
    def deallocate(self, pointer, size, stream=None):
        self.bytes -= size
        self.upstream.deallocate(pointer, size, stream)
class _Pool(UpstreamResourceAdaptor):
    def __init__(self, upstream_mr, *others, **named):
        super().__init__(upstream_mr)
        upstream_mr.allocate(1 << 20, None)
class PoolMemoryResource(_Pool): pass
class ArenaMemoryResource(_Pool): pass
class FixedSizeMemoryResource(_Pool): pass
class BinningMemoryResource(_Pool): pass
def _initialize(pool_allocator=False, **named):
    global was_pool
    was_pool = pool_allocator
def reinitialize(pool_allocator=False, maximum_pool_size=None):
    _initialize(pool_allocator=pool_allocator, maximum_pool_size=maximum_pool_size)
mr = pylibrmm = memory_resource = rmm = sys.modules[__name__]
for name in ("mr", "pylibrmm", "pylibrmm.memory_resource", "rmm"):
    sys.modules["rmm." + name] = mr
"""

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

USE_RMM = """
import ctypes, rmm, rmm.mr
libc, sizes = ctypes.CDLL(None), []
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def take(size, stream):
    sizes.append(size)
    return libc.malloc(size)
def give(pointer, size, stream):
    sizes.append(-size)
    libc.free(pointer)
below = rmm.mr.CallbackMemoryResource(take, give)
pools = [rmm.mr.PoolMemoryResource(below, initial_pool_size=2**20, maximum_pool_size=2**21),
         rmm.mr.PoolMemoryResource(below, "1MiB"), rmm.mr.ArenaMemoryResource(below),
         rmm.mr.FixedSizeMemoryResource(below, 4096), rmm.mr.BinningMemoryResource(below, 10, 20)]
assert not sizes, "a pool takes nothing ahead: %s" % sizes
for pool in pools:
    first, second = pool.allocate(1000), pool.allocate(10)
    assert pool.get_upstream() is below and isinstance(pool, rmm.mr.DeviceMemoryResource)
    if type(pool).__name__ == "PoolMemoryResource":
        assert isinstance(pool, rmm.mr.PoolMemoryResource) and pool.pool_size() >= 1010
    if type(pool).__name__ == "BinningMemoryResource":
        pool.add_bin(100)
        pool.add_bin(200, below)
        assert pool.bin_mrs == [below]
    pool.deallocate(first, 1000)
    pool.deallocate(second, 10)
    assert sizes == [1000, 10, -1000, -10], (pool, sizes)
    sizes.clear()
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


class Pools(standin.InFolder):
    def run_code(self, code: str, preload: bool = True, python: str | None = None, **more: str) -> str:
        """Runs it with a library of the preload library's name, and with stand-ins for modules."""
        standin.write_files(self.folder, {f"{name}.py": text for name, text in more.items()})
        head = "import cufence._patches as patches; patches.install()\n" if preload else ""
        variables = standin.clean_environment(
            PYTHONPATH=f"{self.folder}:{standin.PACKAGE}", CUFENCE_LIBRARY=str(standin.LIBRARY)
        )
        if preload:
            variables["LD_PRELOAD"] = standin.empty_preload(self.folder)
        words = [python or sys.executable, "-c", head + textwrap.dedent(code)]
        done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def has(self, package: str, python: str = POOLS_PYTHON) -> None:
        """Skips the test unless that Python has the package, which it can import."""
        done = subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"{python} has no {package} (CUFENCE_TEST_POOLS_PYTHON and CUFENCE_TORCH_PYTHON name others)")

    def test_rmm(self) -> None:
        self.run_code(
            USE_RMM + "rmm.reinitialize(pool_allocator=True, maximum_pool_size=5)\nassert rmm.was_pool is False\n", rmm=RMM
        )

    def test_rmm_without_cufence(self) -> None:
        self.run_code("import rmm; rmm.reinitialize(pool_allocator=True); assert rmm.was_pool", preload=False, rmm=RMM)

    def test_real_rmm(self) -> None:
        self.has("rmm")
        self.run_code(USE_RMM + "assert rmm.rmm._initialize.cufence_before\n", python=POOLS_PYTHON)

    def test_cupy(self) -> None:
        self.run_code(USE_CUPY, cupy=CUPY)

    def test_real_cupy(self) -> None:
        self.has("cupy")
        self.run_code(USE_CUPY, python=POOLS_PYTHON)

    def test_another_version_is_said(self) -> None:
        self.run_code(
            """
            import warnings
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                import cupy
            assert "the pools of this version of cupy" in str(said[0].message), said
            """,
            cupy="",
        )
