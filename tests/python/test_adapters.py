"""The adapters of libraries with pools of their own: with stand-ins for the libraries, and with the libraries where they are.

CUFENCE_TEST_POOLS_PYTHON names a Python that has the real ones (rmm-cu12, cupy-cuda13x): without a GPU they can be imported,
and what reaches the resource below a pool be seen. CUFENCE_TEST_VLLM and CUFENCE_TEST_SGLANG name folders with the sources of
vLLM and SGLang (a source distribution, an unpacked wheel), for which CUFENCE_TORCH_PYTHON has PyTorch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pools
import simulated
import standin
from standin import BUILD, LIBCUDA

POOLS_PYTHON = os.environ.get("CUFENCE_TEST_POOLS_PYTHON", sys.executable)
TORCH_PYTHON = os.environ.get("CUFENCE_TORCH_PYTHON", sys.executable)


# A pool that tells tools of its pieces, as Compute Sanitizer's manual shows it.
POOL = """
#include <cuda.h>
#include <nvtx3/nvToolsExtMem.h>
int main(void)
{
    CUcontext context;
    CUdeviceptr pool;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuMemAlloc(&pool, 1 << 16);
    nvtxMemVirtualRangeDesc_t all = {1 << 16, (void *)pool}, piece = {1000, (void *)pool};
    nvtxMemHeapDesc_t heap = {NVTX_EXT_COMPATID_MEM, sizeof heap, 0, NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
                              NVTX_MEM_TYPE_VIRTUAL_ADDRESS, sizeof all, &all, 0, NVTX_MESSAGE_TYPE_ASCII, {"slab"}};
    nvtxDomainHandle_t domain = nvtxDomainCreateA("pools");
    nvtxMemRegionsRegisterBatch_t pieces = {NVTX_EXT_COMPATID_MEM, sizeof pieces, NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
                                            nvtxMemHeapRegister(domain, &heap), 1, sizeof piece, &piece, 0};
    nvtxMemRegionsRegister(domain, &pieces);
    cuMemsetD8(pool, 1, WRITTEN);
    cuCtxSynchronize();
    return 0;
}
"""

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


class Adapters(standin.InFolder):
    def run_code(self, code: str, preload: bool = True, python: str | None = None, **more: str) -> str:
        """Runs it with a library of the preload library's name, and with stand-ins for modules (variables are in capitals)."""
        self.write(**{name: text for name, text in more.items() if name.islower()})
        head = "import cufence._patches as patches; patches.install()\n" if preload else ""
        variables = standin.clean_environment(
            PYTHONPATH=f"{self.folder}:{standin.PACKAGE}", CUFENCE_LIBRARY=str(standin.LIBRARY)
        )
        variables.update((name, text) for name, text in more.items() if name.isupper())
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

    def test_adapt(self) -> None:
        self.run_code(
            """
            import cufence, os
            for name, error, words in (("numpy", ValueError, "rmm, cupy, vllm"), ("rmm", RuntimeError, "cufence run")):
                try:
                    cufence.adapt(name)
                except error as raised:
                    assert words in str(raised), raised
                else:
                    raise AssertionError(name)
            """,
            preload=False,
        )
        self.run_code("import cufence, rmm; cufence.adapt('rmm', 'cupy')", rmm=RMM)

    def write(self, **modules: str) -> None:
        """Writes modules of packages; __ in a name is a dot."""
        standin.write_files(self.folder, {f"{name.replace('__', '/')}.py": text for name, text in modules.items()})

    def real(self, package: str, variable: str, *modules: str) -> str:
        """Returns what makes these modules the real ones, in the sources that the variable names."""
        folder = os.environ.get(variable)
        if not folder or not Path(folder, package).is_dir():
            self.skipTest(f"{variable} names no folder with the sources of {package}")
        return f"import sys\nPACKAGE, FOLDER, REAL = {package!r}, {folder!r}, {modules!r}\n{pools.SOURCES}"

    def test_vllm(self) -> None:
        core, worker = {"block_pool": pools.VLLM_POOL, "kv_cache_manager": pools.VLLM_MANAGER}, pools.VLLM_UTILS
        self.write(vllm__v1__worker__utils=worker, **{f"vllm__v1__core__{name}": text for name, text in core.items()})
        self.run_code(pools.RECORDED + pools.USE_VLLM + pools.USE_VLLM_AROUND)

    def test_real_vllm(self) -> None:
        names = ("core.block_pool", "core.kv_cache_utils", "core.kv_cache_manager", "worker.utils", "kv_cache_interface")
        head = self.real("vllm", "CUFENCE_TEST_VLLM", *(f"vllm.v1.{name}" for name in names))
        self.has("torch", TORCH_PYTHON)
        self.run_code(head + pools.RECORDED + pools.USE_VLLM + pools.USE_VLLM_REAL, python=TORCH_PYTHON)

    def test_sglang(self) -> None:
        folder = "sglang__srt__mem_cache__allocator__"
        self.write(**{f"{folder}token": pools.SGLANG_TOKEN, f"{folder}paged": pools.SGLANG_PAGED})
        self.run_code(pools.RECORDED + pools.DECODE + pools.USE_SGLANG)

    def test_real_sglang(self) -> None:
        names = (f"sglang.srt.mem_cache.allocator.{name}" for name in ("base", "token", "paged"))
        head = self.real("sglang", "CUFENCE_TEST_SGLANG", *names)
        self.has("torch", TORCH_PYTHON)
        use = pools.USE_SGLANG.replace("class Cache", pools.DECODE_REAL + "class Cache", 1)
        self.run_code(head + pools.RECORDED + use, python=TORCH_PYTHON)

    def test_blocks_on_the_simulated_device(self) -> None:
        core = {"block_pool": pools.VLLM_POOL, "kv_cache_manager": pools.VLLM_MANAGER}
        self.write(vllm__v1__worker__utils=pools.VLLM_UTILS, **{f"vllm__v1__core__{name}": text for name, text in core.items()})
        variables = {
            "PYTHONPATH": f"{self.folder}:{standin.PACKAGE}:{Path(__file__).parent}",
            simulated.VARIABLE: str(simulated.build(self.folder, standin.c_compiler())),
        }
        for way, status in (("in order", 0), ("late", 86)):
            done = standin.cufence("run", "--", sys.executable, "-c", pools.TENSOR + pools.USE_ROWS, way, **variables)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual("WRITE to a free region: 4 bytes changed" in done.stderr, way == "late", done.stderr)

    def test_children_follow(self) -> None:
        self.write(vllm__v1__core__block_pool=pools.VLLM_POOL)
        code = "from vllm.v1.core.block_pool import BlockPool; assert hasattr(BlockPool.free_blocks, 'cufence_before')"
        self.run_code(code, CUFENCE_ADAPT="other,vllm")

    def test_another_version_is_said(self) -> None:
        self.write(vllm__v1__worker__utils="", sglang__srt__mem_cache__allocator="", cupy="", other="")
        (self.folder / "sglang" / "__init__.py").write_text("")
        self.run_code(
            """
            import cufence, warnings
            cufence.adapt("vllm", "sglang")
            wanted = {"vllm.v1.worker.utils": ["allocate_kv_cache", "its cache is not followed"], "cupy": ["inside its pools"],
                      "sglang": ["it has no sglang.srt.mem_cache.allocator.token", "its cache"], "other": []}
            for module, words in wanted.items():
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    __import__(module)
                text = " ".join(str(each.message) for each in said)
                assert bool(text) == bool(words) and all(word in text for word in words), (module, text)
            """
        )

    def test_too_late(self) -> None:
        self.write(vllm__v1__core__block_pool=pools.VLLM_POOL)
        self.run_code(
            """
            import cufence, vllm.v1.core.block_pool
            try:
                cufence.adapt("vllm")
            except RuntimeError as error:
                assert "vllm.v1.core.block_pool is imported already" in str(error), error
            else:
                raise AssertionError
            """
        )

    def run_pool(self, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a program with a pool that knows nothing of cufence, under `cufence run` on the simulated device."""
        cache = (BUILD / "CMakeCache.txt").read_text()
        include = re.search(r"^CUFENCE_CUDA_INCLUDE_DIR:PATH=(.*)$", cache, re.M)
        if not include or not Path(include[1], "nvtx3", "nvToolsExtMem.h").is_file():
            self.skipTest("this toolkit has no nvtx3/nvToolsExtMem.h")
        source, program = self.folder / "pool.c", self.folder / "pool"
        source.write_text(POOL)
        command = [standin.c_compiler(), f"-I{include[1]}", source, "-o", program, LIBCUDA / "libcuda.so.1", "-ldl"]
        subprocess.run([*command, *flags], check=True)
        return standin.cufence("run", "--verbose", "--", program, **variables)

    def test_a_pool_that_tells_nvtx(self) -> None:
        done = self.run_pool("-DWRITTEN=1000")
        self.assertEqual((done.returncode, "padding" in done.stderr), (0, False), done.stderr)
        done = self.run_pool("-DWRITTEN=1008")
        self.assertEqual(done.returncode, 86, done.stderr)
        self.assertIn("padding in slab", done.stderr)
        done = self.run_pool("-DWRITTEN=1008", NVTX_INJECTION64_PATH="/nonexistent/tool.so")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("NVTX_INJECTION64_PATH=/nonexistent/tool.so: left as it was", done.stderr)
