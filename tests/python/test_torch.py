"""PyTorch itself on the simulated device, without kernels: tests/gpu/torch_allocator.py and torch_graphs.py as far as that goes.

Needs a Python with PyTorch for CUDA 13 and its CUDA headers: this one, or the one that CUFENCE_TORCH_PYTHON names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import standin

PYTHON = os.environ.get("CUFENCE_TORCH_PYTHON", sys.executable)
BUILD = standin.LIBRARY.parents[1]
GPU = standin.ROOT / "tests" / "gpu"
PROBE = "import importlib.util as u; print(next(iter(u.find_spec('torch').submodule_search_locations)))"

# Tensors of ones need a kernel, as does to look into one; without them it is all the same.
WITHOUT_KERNELS = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import torch, torch_allocator, unittest
torch_allocator.int8 = lambda size: torch.empty(size, device="cuda", dtype=torch.uint8)
torch.Tensor.sum = lambda self: self.numel()
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


class Torch(unittest.TestCase):
    @unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
    def test_features(self) -> None:
        torch = torch_folder()
        headers = torch.parent / "nvidia" / "cu13" / "include" if torch else Path("/nonexistent")
        if not (headers / "cuda_runtime_api.h").is_file():
            self.skipTest(f"{PYTHON} has no PyTorch with headers of CUDA 13")
        with tempfile.TemporaryDirectory() as folder:
            library, script = Path(folder, "cudart.so"), Path(folder, "script.py")
            source = Path(__file__).with_name("cudart.c")
            command = [standin.c_compiler(), "-O1", "-shared", "-fPIC", f"-I{headers}", str(source), "-o", str(library), "-ldl"]
            subprocess.run(command, check=True)
            script.write_text(textwrap.dedent(WITHOUT_KERNELS))
            environment = standin.clean_environment(
                CUFENCE_DRIVER="sim",
                LD_PRELOAD=str(library),
                LD_LIBRARY_PATH=str(BUILD / "tests" / "libcuda"),
                XDG_CACHE_HOME=os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            )
            words = [BUILD / "bin" / "cufence", "run", "--", PYTHON, script, GPU]
            done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        self.assertRegex(done.stderr, r"\nOK\n")
        self.assertIn("PyTorch's allocator: cufence", done.stderr)
