"""What the package tells the library of Triton's kernels when they are loaded, with stand-ins for Triton and Inductor.

CUFENCE_TEST_TRITON_PYTHON names a Python that has Triton, 3.6 or later: it compiles for GPUs that are not there."""

from __future__ import annotations

import os
import subprocess

import standin

TRITON = """
import types

class CompiledKernel:
    def __init__(self, name, signature, function):
        self.metadata = types.SimpleNamespace(name=name, num_warps=4)
        self.src = types.SimpleNamespace(signature=signature)
        self.name, self.loaded, self.function = name, function, None

    def _init_handles(self, *others):
        self.function = self.loaded
        return "handles"
"""

HEURISTICS = """
import types

class StaticTritonCompileResult:
    def __init__(self, name, function, signature, constants, passed):
        self.kernel = types.SimpleNamespace(name=name, function=None, arg_tys=passed)
        self.compile_meta = {"signature": signature, "constants": constants}
        self.loaded = function

    def make_launcher(self):
        self.kernel.function = self.loaded
        return "launcher"
"""

HEAD = """
import types
import cufence._library as library
told = []
library.loaded = lambda: types.SimpleNamespace(cufence_torch_kernel=lambda *what: told.append(what))
from triton.compiler.compiler import CompiledKernel
from torch._inductor.runtime.triton_heuristics import StaticTritonCompileResult
"""

FILES = {"torch/_inductor/runtime/triton_heuristics.py": HEURISTICS, "triton/compiler/compiler.py": TRITON}


REAL = """
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from cufence import _kernels, _signatures

@triton.jit
def mixed(d, pair, x, n, one, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(pair[0] + at[:, None] * n + at[None, :], d.load([0, 0]) + tl.load(x) * pair[1] + one)

signature = {"d": "tensordesc<fp32[32, 32]>", "pair": ("*fp32", "i32"), "x": "*fp32", "n": "i32", "one": "constexpr", "BLOCK": "constexpr"}
bytes_of = {"u64": 8, "b64": 8, "s64": 8, "u32": 4, "b32": 4, "u8": 1, "b8": 1, "u16": 2}
for capability in (80, 90):
    source = ASTSource(mixed, signature, {"one": 1, "BLOCK": 32})
    kernel = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    head = kernel.asm["ptx"].partition(".entry")[2].partition(")")[0]
    passed = [128 if "[128]" in line else bytes_of[line.split(".param")[1].replace(".align 64", "").split()[0][1:]]
              for line in head.splitlines() if ".param" in line]
    arguments = _kernels.arguments_of(kernel)
    assert _kernels._fits(arguments, [{"size": size} for size in passed]), (capability, arguments, passed)
    assert len(passed) - len(arguments) == 2, (arguments, passed)
    assert arguments[-4:] == [("pair[0]", "*fp32"), ("pair[1]", "i32"), ("x", "*fp32"), ("n", "i32")], arguments
    assert _kernels._is_of(kernel, "mixed") and _kernels._constexprs_of(kernel)["BLOCK"] == "32"
    assert _signatures.text_of(arguments)
assert triton.compiler.CompiledKernel._init_handles and triton.compiler.compiler.CompiledKernel.__module__ == "triton.compiler.compiler"
"""


class Signatures(standin.Patched):
    prelude = standin.Patched.prelude + HEAD
    files = FILES

    def test_a_kernel_that_triton_loads(self) -> None:
        self.run_code(
            """
            signature = {"x": "*fp32", "q": "*kfp8e4nv", "u": "*u8", "m": "*i1", "n": "i32", "BLOCK": "constexpr", "s": "fp32"}
            assert CompiledKernel("add", signature, 4096)._init_handles() == "handles"
            assert told == [(4096, b"add", b"x *fp32\\nq *kfp8e4nv\\nu *u8\\nm *i1\\nn i32\\ns fp32")], told
            """
        )

    def test_what_is_passed_in_another_way_is_not_told(self) -> None:
        self.run_code(
            """
            for kind in (b"*fp32", "tensordesc", "*(fp32)"):
                assert CompiledKernel("add", {"x": "*fp32", "d": kind}, 4096)._init_handles() == "handles"
            CompiledKernel("add", {"x": "*fp32"}, None)._init_handles()
            assert not told, told
            kernel = CompiledKernel("add", {"t": ("*fp32", "i32"), "d": "tensordesc<fp16[64]>", "n": "i32"}, 4096)
            kernel.metadata.tensordesc_meta = [{}]
            kernel._init_handles()
            assert told == [(4096, b"add", b"t[0] *fp32\\nt[1] i32\\nd nvTmaDesc\\nd.shape[0] i32\\nd.strides[0] i64\\nn i32")], told
            """
        )

    def test_a_kernel_that_inductor_launches_itself(self) -> None:
        self.run_code(
            """
            signature = {"in_ptr0": "*bf16", "out_ptr0": "*fp32", "xnumel": "i32", "ynumel": "i32", "XBLOCK": "constexpr"}
            constants = {"ynumel": 1, "XBLOCK": 128}
            result = StaticTritonCompileResult("triton_poi_fused_add_0", 64, signature, constants, "OOi")
            assert result.make_launcher() == "launcher"
            text = b"in_ptr0 *bf16\\nout_ptr0 *fp32\\nxnumel i32"
            assert told == [(64, b"triton_poi_fused_add_0", text)], told
            result.loaded, result.kernel.functions = None, {0: 65, 1: 66}  # of each device, from PyTorch 2.14 on
            result.make_launcher()
            assert told[1:] == [(65, b"triton_poi_fused_add_0", text), (66, b"triton_poi_fused_add_0", text)], told
            told.clear()
            constants = {(3,): 1, (4,): 128}
            StaticTritonCompileResult("k", 64, signature, constants, "OOi").make_launcher()
            assert len(told) == 1, told
            StaticTritonCompileResult("k", 64, signature, constants, "OOii").make_launcher()
            assert len(told) == 1, "their number does not agree"
            """
        )

    def test_real_triton(self) -> None:
        python = os.environ.get("CUFENCE_TEST_TRITON_PYTHON")
        if not python:
            self.skipTest("CUFENCE_TEST_TRITON_PYTHON names no Python with Triton")
        (self.folder / "real.py").write_text(REAL)
        variables = standin.clean_environment(PYTHONPATH=str(standin.PACKAGE), TRITON_CACHE_DIR=str(self.folder / "cache"))
        words = [python, str(self.folder / "real.py")]
        done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_error_is_not_the_programs(self) -> None:
        self.run_code(
            """
            kernel = CompiledKernel("add", {"x": "*fp32"}, 4096)
            del kernel.src
            assert kernel._init_handles() == "handles"
            result = StaticTritonCompileResult("k", 64, {}, {}, "")
            del result.compile_meta
            assert result.make_launcher() == "launcher" and not told
            """
        )

    def test_nothing_changes_without_the_hooks(self) -> None:
        self.run_code(
            """
            assert not hasattr(CompiledKernel._init_handles, "cufence_before")
            assert not hasattr(StaticTritonCompileResult.make_launcher, "cufence_before")
            """,
            LD_PRELOAD="",
        )
