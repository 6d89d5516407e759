"""The patches of other libraries right after their import, with stand-ins for the libraries."""

from __future__ import annotations

import unittest

import standin

OUTPUT_CODE = """
class config:
    class triton:
        cudagraph_trees = True

class Boxed:
    value = True
    def __bool__(self): return self.value

class Graph:
    device_types = {"cuda"}
    captured = False

def cudagraph_post_compile(example_inputs, compiled_graph, cudagraphs, constants, boxed_forward_device_index):
    compiled_graph.captured = True

def cudagraph_partition_post_compile(example_inputs, compiled_graph, cudagraphs, constants, boxed_forward_device_index):
    compiled_graph.captured = True
"""

TREES = """
def cudagraphify_impl(model, inputs, static_input_idxs, *others, **named):
    return "captured"
"""

TORCH = """
import types
backend = "cudaMallocAsync"
__version__ = "2.11.0+standin"
from . import cuda
version = types.SimpleNamespace(cuda="13.0")
"""

CUDA = """
def get_allocator_backend():
    import torch
    return torch.backend
"""

FILES = {
    "torch/__init__.py": TORCH,
    "torch/cuda/__init__.py": CUDA,
    "torch/_inductor/__init__.py": "",
    "torch/_inductor/output_code.py": OUTPUT_CODE,
    "torch/_inductor/cudagraph_trees.py": TREES,
}

COMPILE = """
import warnings
from torch._inductor import output_code
def compiled(function):
    graph, boxed = output_code.Graph(), output_code.Boxed()
    function([], graph, boxed, {}, None)
    return graph.captured, boxed.value
"""


class Patches(standin.Patched):
    files = FILES

    def test_graph_trees(self) -> None:
        self.run_code(
            COMPILE
            + """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for name in ("cudagraph_post_compile", "cudagraph_partition_post_compile") * 2:
        assert compiled(getattr(output_code, name)) == (False, False), name
assert len(caught) == 1 and caught[0].category is RuntimeWarning, caught
assert 'mode="reduce-overhead"' in str(caught[0].message)
"""
        )

    def test_what_works_stays(self) -> None:
        self.run_code(
            COMPILE
            + """
warnings.simplefilter("error")
output_code.Graph.device_types = {"cpu"}
assert compiled(output_code.cudagraph_post_compile) == (False, False)
import torch
torch.backend = "native"
assert compiled(output_code.cudagraph_post_compile) == (True, True)
torch.backend = "cudaMallocAsync"
output_code.config.triton.cudagraph_trees = False
assert compiled(output_code.cudagraph_post_compile) == (True, True)
"""
        )

    def test_another_way_to_the_trees(self) -> None:
        self.run_code(
            """
            import warnings, torch
            from torch._inductor.cudagraph_trees import cudagraphify_impl
            model = lambda inputs: inputs
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert cudagraphify_impl(model, [], (), device_index=0) is model
            assert len(caught) == 1
            torch.backend = "native"
            assert cudagraphify_impl(model, [], (), device_index=0) == "captured"
            """
        )

    def test_another_version(self) -> None:
        (self.folder / "torch" / "_inductor" / "output_code.py").write_text("x = 1\n")
        (self.folder / "torch" / "_inductor" / "cudagraph_trees.py").write_text("x = 1\n")
        self.run_code("import torch._inductor.output_code, torch._inductor.cudagraph_trees")

    def test_reads_of_results(self) -> None:
        code = """
            import os, torch, types
            asked = []
            class Tensor:
                def __init__(self, kind="cpu"): self.device = types.SimpleNamespace(type=kind)
                def untyped_storage(self): return types.SimpleNamespace(data_ptr=lambda: 4096, nbytes=lambda: 64)
                def numpy(self, *, force=False): return "array", force
                def item(self): return 5
                def tolist(self): return [5]
            torch.Tensor = Tensor
            torch.compiler = types.SimpleNamespace(is_compiling=lambda: False)
            import cufence._library as library, cufence._patches as patches
            library.load = lambda: types.SimpleNamespace(cufence_check_host=lambda *all: asked.append(all))
            patches._patch_reads(torch)
            tensor = torch.Tensor()
            assert tensor.numpy(force=True) == ("array", True) and tensor.item() == 5 and tensor.tolist() == [5]
            assert asked == [(4096, 64, b"Tensor.numpy"), (4096, 64, b"Tensor.item"), (4096, 64, b"Tensor.tolist")], asked
            asked.clear()
            torch.Tensor("cuda").item()
            class Mine(torch.Tensor): pass
            Mine().item()
            torch.compiler.is_compiling = lambda: True
            tensor.item()
            assert not asked
        """
        self.run_code(code)

    def run_guarded(self, code: str, torch: str, **more: str) -> str:
        """Under the preload library itself. Returns what standard error says."""
        (self.folder / "torch" / "__init__.py").write_text(torch)
        preload = str(standin.LIBRARY.with_name("libcufence_preload.so"))
        code = f"import cufence._patches as patches; patches.install(); {code}"
        done = standin.run_python(code, PYTHONPATH=f"{self.folder}:{standin.PACKAGE}", LD_PRELOAD=preload, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    @unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
    def test_another_back_end(self) -> None:
        native = TORCH.replace("cudaMallocAsync", "native")
        code = "import os; os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'; import torch"
        said = self.run_guarded(code, native)
        self.assertIn("PyTorch's back end is native (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)", said)
        self.assertEqual(self.run_guarded("import torch", native.replace('"13.0"', "None")), "", "a PyTorch without CUDA has none")

    @unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
    def test_the_right_back_end(self) -> None:
        """Where there is no class for this PyTorch, whose back end then serves."""
        said = self.run_guarded("import torch", TORCH.replace("2.11.0", "2.10.0"), PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
        lost = r"no CUDA graph trees, memory pools and snapshots, and small operations take a fifth longer"
        which = r"PyTorch 2\.10\.0\+standin is none of the releases that cufence supports: 2\.11 to 2\.15"
        self.assertRegex(said, rf"^cufence: PyTorch allocates through its cudaMallocAsync back end: {lost}\. {which}\n$")

    def test_module_is_as_it_was(self) -> None:
        self.run_code(
            """
            import importlib, inspect, sys, torch._inductor.cudagraph_trees as graphs
            assert "exec_module" not in vars(graphs.__loader__) and graphs.__spec__.loader is graphs.__loader__
            assert "captured" in inspect.getsource(graphs)
            del graphs.cudagraphify_impl
            importlib.reload(graphs)
            assert graphs.cudagraphify_impl.cufence_before
            patches.install()
            assert sum(type(finder).__name__ == "_Finder" for finder in sys.meta_path) == 1
            """
        )

    def test_errors_of_the_module(self) -> None:
        self.assertRegex(self.run_code("import warp", 1).stderr.strip(), r"ModuleNotFoundError: No module named 'warp'$")
        standin.write_files(self.folder, {"warp/__init__.py": "raise ImportError('no driver')\n"})
        self.assertRegex(self.run_code("import warp", 1).stderr.strip(), r"ImportError: no driver$")
