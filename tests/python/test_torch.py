"""PyTorch itself on the simulated device, without kernels: tests/gpu/torch_allocator.py and torch_graphs.py as far as that goes.

Needs a Python with PyTorch for CUDA 13 and its CUDA headers: this one, or the one that CUFENCE_TORCH_PYTHON names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

import standin
from standin import BUILD, LIBCUDA

PYTHON = os.environ.get("CUFENCE_TORCH_PYTHON", sys.executable)
GPU = standin.ROOT / "tests" / "gpu"
PROBE = "import importlib.util as u; print(next(iter(u.find_spec('torch').submodule_search_locations)))"

# Tensors of ones need a kernel, as does to look into one; without them it is all the same.
WITHOUT_KERNELS = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import torch, torch_allocator, unittest
torch_allocator.int8 = lambda size: torch.empty(size, device="cuda", dtype=torch.uint8)
torch.Tensor.sum = lambda self: self.numel()
profile = torch.profiler.profile  # the GPU's part asks for a real driver
torch.profiler.profile = lambda **more: profile(activities=[torch.profiler.ProfilerActivity.CPU], **more)
import torch_graphs
from torch_allocator import Memory, Pools, Snapshots
class Checkpoints(torch_graphs.Checkpoints):
    test_owners = test_live_ones = None
    def test_simple(self):
        self.check(lambda: (torch_graphs.int8(512), torch_graphs.int8(512)))
unittest.main()
"""


def torch_folder() -> Path | None:
    done = subprocess.run([PYTHON, "-c", PROBE], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip()) if done.returncode == 0 else None


# Asks as PyTorch's own test_lazy_init does.
FORKED = """
import ctypes, os, torch
assert torch.cuda.get_allocator_backend() == "native"
asked = ctypes.CDLL("libcuda.so.1").cuDeviceGetCount(ctypes.byref(ctypes.c_int()))
assert asked == 3, f"import torch has started the driver: {asked}"  # CUDA_ERROR_NOT_INITIALIZED
assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == os.environ["PYTORCH_ALLOC_CONF"] == "backend:cudaMallocAsync,max_split_size_mb:64"
child = os.fork()
before = torch.cuda.memory_allocated()
tensor = torch.empty(101, device="cuda", dtype=torch.uint8)
assert torch.cuda.memory_allocated() - before == 101
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


# The child's graph ends with what it has inherited.
GRAPH_IN_CHILD = """
import os, torch
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    kept = torch.empty(101, device="cuda", dtype=torch.uint8)
child = os.fork()
if not child:
    del graph, kept
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


# A program without Python, with PyTorch's own libraries.
PROGRAM = """
#include <c10/cuda/CUDACachingAllocator.h>
#include <cstdio>
int main()
{
    namespace native = c10::cuda::CUDACachingAllocator;
    native::init(1);
    void *pointer = native::raw_alloc(1000);
    std::printf("%zu\\n", reinterpret_cast<std::size_t>(pointer) % 4096);
    native::raw_delete(pointer);
}
"""


@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Torch(standin.InFolder):
    def setUp(self) -> None:
        torch = torch_folder()
        headers = torch.parent / "nvidia" / "cu13" / "include" if torch else Path("/nonexistent")
        if not (headers / "cuda_runtime_api.h").is_file():
            self.skipTest(f"{PYTHON} has no PyTorch with headers of CUDA 13")
        super().setUp()
        self.runtime = self.folder / "cudart.so"
        source = Path(__file__).with_name("cudart.c")
        command = [standin.c_compiler(), "-O1", "-shared", "-fPIC", f"-I{headers}", str(source), "-o", str(self.runtime), "-ldl"]
        subprocess.run(command, check=True)

    def run_it(self, code: str, *arguments: str | Path, **more: str) -> str:
        """Runs it under `cufence run`, and returns what its standard error says."""
        script = self.folder / "script.py"
        script.write_text(code)
        return self.run_command([PYTHON, script, *arguments], **more).stderr

    def run_command(self, command: list[str | Path], **more: str) -> subprocess.CompletedProcess[str]:
        environment = standin.clean_environment(
            CUFENCE_DRIVER="sim",
            LD_PRELOAD=str(self.runtime),
            LD_LIBRARY_PATH=str(LIBCUDA),
            **more,
        )
        words = [BUILD / "bin" / "cufence", "run", "--", *command]
        done = subprocess.run(words, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        return done

    def test_features(self) -> None:
        said = self.run_it(WITHOUT_KERNELS, GPU)
        self.assertRegex(said, r"\nOK\b")
        self.assertIn("PyTorch's allocator: cufence", said)

    def test_without_python(self) -> None:
        """The buffer ends with its page: PyTorch's own allocator rounds it up to 512 bytes, and begins with one."""
        torch = torch_folder()
        assert torch is not None
        version = ".".join((torch / "version.py").read_text().split("__version__ = '")[1].split(".")[:2])
        if not (BUILD / "lib" / "torch" / f"libcufence-torch-{version}.so").exists():
            self.skipTest(f"no class for PyTorch {version} was built: python3 cmake/torch_headers.py, then ./dev build")
        program, headers = self.folder / "program", torch.parent / "nvidia" / "cu13" / "include"
        links = ["-Wl,--no-as-needed", f"-L{torch / 'lib'}", "-lc10", "-lc10_cuda", str(self.runtime), f"-Wl,-rpath,{torch / 'lib'}"]
        standin.compile_shared(PROGRAM, program, "-std=c++20", f"-I{torch / 'include'}", f"-I{headers}", *links, kind=())
        done = self.run_command([program])
        self.assertEqual(int(done.stdout), 4096 - 1008)
        self.assertIn("1 allocation guarded", done.stderr)
        self.assertIn("PyTorch's allocator: cufence", done.stderr)

    def test_fork_after_import(self) -> None:
        """The driver starts with the first use of CUDA, so parent and child can both use it."""
        said = self.run_it(FORKED, PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64", CUFENCE_OPTIONS="say=verbose")
        self.assertEqual(said.count("PyTorch's allocator: cufence"), 2, said)

    def test_graph_in_child(self) -> None:
        self.assertNotIn("cannot", self.run_it(GRAPH_IN_CHILD))
