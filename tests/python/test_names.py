"""Names of tensors and of a kernel's arguments, with stand-ins for PyTorch and Triton, and on the simulated device."""

from __future__ import annotations

import collections
import gc
import json
import os
import subprocess
import sys
import textwrap
import types
import unittest
from pathlib import Path
from unittest import mock

import simulated
import standin
import test_schema

try:
    import jsonschema
except ImportError:
    jsonschema = None  # type: ignore[assignment]

ADDRESS = 0x7F0000001000
OTHER = 0x7F0000900000


def report_of(offset: int, size: int = 4000, **more: object) -> dict[str, object]:
    """A report of an access `offset` bytes behind the start of buffer #7."""
    return {
        "schema": 2,
        "process": {"pid": 42},
        "headline": "out-of-bounds READ",
        "address": {"value": hex(ADDRESS + offset), "certainty": "exact"},
        "buffer": {"id": 7, "address": hex(ADDRESS), "size": size},
        **more,
    }


class Names(standin.InOneFolder):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        standin.write_tensors(cls.folder)
        sys.path.insert(0, str(cls.folder))
        import torch
        import torch.optim
        import triton

        cls.torch, cls.triton = torch, triton
        from cufence import _names, _tell

        cls.names, cls.tell = _names, _tell
        cls.seconds, _names.SECONDS = _names.SECONDS, 60  # a busy machine may not get far in those that it has

    @classmethod
    def tearDownClass(cls) -> None:
        cls.names.SECONDS = cls.seconds
        sys.path.remove(str(cls.folder))
        for name in [name for name in sys.modules if name.partition(".")[0] in ("torch", "triton")]:
            del sys.modules[name]

    def said(self, report: dict[str, object], frames: object = ()) -> str:
        found = self.names.look_up(report, frames)
        return "\n".join(self.tell.sentences(report, found))

    def model(self, tensor: object) -> object:
        model, layers, third = self.torch.Module(), self.torch.Module(), self.torch.Module()
        model._modules["layers"], layers._modules["3"] = layers, third
        third._parameters["weight"] = tensor
        return model

    def test_a_parameter_has_its_qualified_name_and_the_element(self) -> None:
        model = self.model(self.torch.Tensor(ADDRESS, (100, 10)))
        text = self.said(report_of(4000), [sys._getframe()])
        self.assertIn(
            "buffer #7 is model.layers.3.weight (parameter), float32[100, 10]; the address is where element [100, 0] would be",
            text,
        )
        self.assertIn("; the address is element [17, 3]", self.said(report_of(4 * 173), [sys._getframe()]))
        del model

    def test_without_a_variable_the_outermost_class_is_named(self) -> None:
        kept = [self.model(self.torch.Tensor(ADDRESS, (1000,)))]
        self.assertIn("buffer #7 is layers.3.weight of a Module (parameter)", self.said(report_of(4000)))
        del kept

    def test_modules_that_gc_freeze_hides_are_found_through_variables(self) -> None:
        model = self.model(self.torch.Tensor(ADDRESS, (1000,)))
        gc.freeze()
        try:
            self.assertEqual(self.said(report_of(4000)), "")
            self.assertIn("model.layers.3.weight", self.said(report_of(4000), [sys._getframe()]))
        finally:
            gc.unfreeze()
        del model

    def test_locals_elements_and_fields_are_named(self) -> None:
        y = self.torch.Tensor(ADDRESS, (1000,))
        line = sys._getframe().f_lineno + 1
        text = self.said(report_of(4000), [sys._getframe()])
        self.assertIn(f"buffer #7 is y in {sys._getframe().f_code.co_name}, test_names.py:{line}, float32[1000]", text)
        batch = {"ids": y, "other": None}
        del y
        self.assertIn("batch['ids'] in test_locals", self.said(report_of(4000), [sys._getframe()]))
        states = [None, batch.pop("ids")]
        self.assertIn("states[1] in test_locals", self.said(report_of(4000), [sys._getframe()]))

        class Trainer:
            pass

        trainer = Trainer()
        trainer.loss = states.pop()
        self.assertIn("trainer.loss in test_locals", self.said(report_of(4000), [sys._getframe()]))

    def test_gradients_and_optimizer_states_are_named_after_their_parameter(self) -> None:
        weight = self.torch.Tensor(OTHER, (1000,))
        model = self.model(weight)
        weight.__dict__["grad"] = self.torch.Tensor(ADDRESS, (1000,))
        self.assertIn("is model.layers.3.weight.grad (gradient)", self.said(report_of(4000), [sys._getframe()]))
        adam = self.torch.Adam()
        adam.state[weight] = {"step": 3, "exp_avg": weight.__dict__.pop("grad")}
        self.assertIn(
            "is exp_avg of model.layers.3.weight (optimizer state of Adam)", self.said(report_of(4000), [sys._getframe()])
        )
        del model

    def test_a_view_that_is_not_contiguous_has_an_index_only_where_one_fits(self) -> None:
        odd = self.torch.Tensor(ADDRESS, (10, 5), strides=(20, 2))
        self.assertIn("element [1, 3]", self.said(report_of(4 * 26, 800), [sys._getframe()]))
        self.assertNotIn("element", self.said(report_of(4 * 27, 800), [sys._getframe()]))  # between two elements
        self.assertNotIn("element", self.said(report_of(4 * 30, 800), [sys._getframe()]))  # behind the row's end
        del odd

    def test_tensors_elsewhere_and_freed_buffers_are_not_named(self) -> None:
        elsewhere = self.torch.Tensor(OTHER, (1000,))
        self.assertEqual(self.said(report_of(4000), [sys._getframe()]), "")
        here = self.torch.Tensor(ADDRESS, (1000,))
        freed = report_of(0)
        freed["buffer"]["freed"] = {"ns": 1}
        self.assertEqual(self.said(freed, [sys._getframe()]), "")
        del elsewhere, here

    def test_a_tensor_that_has_taken_a_buffers_place_is_not_named(self) -> None:
        class Library:
            def __init__(self, number: int, place: int = 1) -> None:
                self.number, self.place = number, place

            def cufence_describe(self, address: int, out: object) -> int:
                out._obj.place, out._obj.buffer.id = self.place, self.number
                return 0

        table = self.torch.Tensor(ADDRESS, (8,))
        given = {"list": [{"number": 0, "value": hex(ADDRESS), "buffer": 7, "offset": 0}]}
        for library, is_named in ((Library(7), True), (Library(8), False), (Library(7, place=4), False)):
            with mock.patch.object(self.names._library, "loaded", return_value=library):
                for report in (report_of(4000), {"arguments": given}):
                    said = self.said(report, [sys._getframe()])
                    self.assertEqual("buffer #7 is table in" in said, is_named, said)
        del table

    def test_what_has_no_storage_or_would_be_copied_is_left_alone(self) -> None:
        lazy, cow = self.torch.Lazy(ADDRESS, (1000,)), self.torch.Tensor(ADDRESS, (1000,))
        cow.is_cow = True
        self.assertEqual(self.said(report_of(4000), [sys._getframe()]), "")
        del lazy

    def test_the_time_is_bounded(self) -> None:
        y = self.torch.Tensor(ADDRESS, (1000,))
        before, self.names.SECONDS = self.names.SECONDS, -1.0
        try:
            self.assertEqual(self.names.look_up(report_of(4000), [sys._getframe()]), {"incomplete": True})
        finally:
            self.names.SECONDS = before
        del y

    # ---- Triton ----

    SIGNATURE = {"x": "*fp32", "y": "*fp32", "n": "i32", "scale": "fp32", "one": "constexpr", "BLOCK": "constexpr"}
    ARGUMENTS = {
        "certainty": "exact",
        "list": [
            {"size": 8, "value": hex(ADDRESS), "buffer": 7, "offset": 0},
            {"size": 8, "value": hex(OTHER + 8), "buffer": 8, "offset": 8},
            {"size": 4, "value": "0xfffffffe"},
            {"size": 4, "value": "0x3fc00000"},
            {"size": 8, "value": "0x0"},
        ],
    }

    def kernel(self, block: int, warps: int, signature: dict[str, str] | None = None) -> object:
        return self.triton.CompiledKernel("k_oob", signature or self.SIGNATURE, {(4,): 1, (5,): block}, warps)

    def launch(self, threads: int) -> dict[str, object]:
        return report_of(4000, kernel={"symbol": "k_oob", "name": "k_oob", "block": [threads, 1, 1]}, arguments=self.ARGUMENTS)

    def test_triton_arguments_and_constants_are_named(self) -> None:
        kernel, wider = self.kernel(128, 4), self.kernel(256, 8)
        self.assertEqual(
            self.said(self.launch(128)),
            "arguments of k_oob: x = buffer #7, y = buffer #8 +8, n = -2, scale = 1.5, "
            "one = 1 (constexpr), BLOCK = 128 (constexpr)",
        )
        self.assertIn("BLOCK = 256", self.said(self.launch(256)))
        del kernel, wider

    def test_constants_that_may_be_either_are_left_out(self) -> None:
        kernels = [self.kernel(128, 4), self.kernel(256, 4)]
        text = self.said(self.launch(128))
        self.assertIn("y = buffer #8 +8", text)
        self.assertIn("one = 1", text)
        self.assertNotIn("BLOCK", text)
        del kernels

    def test_other_kernels_and_other_numbers_of_arguments_name_nothing(self) -> None:
        kernels = [
            self.triton.CompiledKernel("other", self.SIGNATURE, {}),
            self.triton.CompiledKernel("k_oob", {"x": "*fp32"}, {}),
            self.triton.CompiledKernel("k_oob", {f"a{i}": "i32" for i in range(6)}, {}),
        ]
        self.assertEqual(self.said(self.launch(128)), "")
        del kernels

    def test_two_kernels_that_disagree_on_the_names_name_nothing(self) -> None:
        other = dict(zip(["a", "b", "c", "d", "one", "BLOCK"], self.SIGNATURE.values()))
        kernels = [self.kernel(128, 4), self.kernel(128, 4, other)]
        self.assertNotIn("buffer #8", self.said(self.launch(128)))
        del kernels

    def test_a_program_without_pytorch_has_the_names_of_tritons_arguments(self) -> None:
        kernel = self.kernel(128, 4)
        torch = sys.modules.pop("torch")
        try:
            self.assertIn("arguments of k_oob: x = buffer #7, y = buffer #8 +8", self.said(self.launch(128)))
        finally:
            sys.modules["torch"] = torch
        del kernel

    # What Triton's expand_signature() makes of it; test_signatures.py compares it with the parameters of real kernels.
    def test_tuples_and_tensor_descriptors_are_several_arguments(self) -> None:
        pair = collections.namedtuple("pair", "first n")("*fp32", "i32")
        signature = {"d": "tensordesc<fp16[64, 64]>", "t": ("*fp32", "constexpr", "i64"), "p": pair, "BLOCK": "constexpr"}
        kernel = self.triton.CompiledKernel("k_oob", signature, {(1, 1): 1, (3,): 64})
        kernel.metadata.tensordesc_meta = [{"swizzle": 3}]
        sizes = (128, 4, 4, 8, 8, 8, 8, 8, 4, 8, 8)
        report = self.launch(128)
        report["arguments"] = {"list": [{"size": size, "value": hex(at)} for at, size in enumerate(sizes)]}
        report["arguments"]["list"][0] = {"size": 128, "pointers": [{"at": 0, "buffer": 7, "offset": 16}]}
        self.assertEqual(
            self.said(report),
            "arguments of k_oob: d = buffer #7 +16, d.shape[0] = 1, d.shape[1] = 2, d.strides[0] = 3, d.strides[1] = 4, "
            "t[0] = 0x5, t[2] = 6, p.first = 0x7, p.n = 8, BLOCK = 64 (constexpr)",
        )
        report["arguments"]["list"][0] = {"size": 128}
        self.assertIn("d = a tensor map, d.shape[0]", self.said(report))
        report["arguments"]["list"][1]["size"] = 8
        self.assertEqual(self.said(report), "", "another layout")

    def test_a_tensor_descriptor_for_a_gpu_without_tma(self) -> None:
        from cufence import _kernels

        kernel = self.triton.CompiledKernel("k", {"d": "tensordesc_im2col<bf16[64, 8],input_rank=1>", "n": "i32"}, {})
        kernel.metadata.tensordesc_meta = []
        for version, flags in (("3.9.0", 2), ("3.7.1", 2), ("3.6.0", 1)):
            kernel.metadata.triton_version = version
            kinds = [kind for _, kind in _kernels.arguments_of(kernel)]
            self.assertEqual(kinds, ["*bf16", "i64", "i64", *["i1"] * flags, "i32", "i64", "i32"], version)

    def test_an_array_of_numba_is_seven_arguments_of_which_one_is_named(self) -> None:
        class Kind:
            def __init__(self, name: str) -> None:
                self.name, self.dtype, self.ndim = name, name, 1

            def __str__(self) -> str:
                return self.name

        array, integer, other = (type(name, (Kind,), {}) for name in ("Array", "Integer", "Record"))
        kernel = type("_Kernel", (), {"__module__": "numba.cuda.dispatcher"})()
        kernel.entry_name, kernel.extensions = "_ZN3oobEv", []
        kernel.py_func = lambda x, y, n: None
        kernel.signature = types.SimpleNamespace(args=(array("float32"), array("int8"), integer("int64")))
        report = self.launch(128)
        report["kernel"] |= {"symbol": "_ZN3oobEv", "name": "__main__::oob[abi:v1](Array<float, 1, C>)"}
        passed = [{"size": 8, "value": hex(at)} for at in range(15)]
        passed[4] |= {"buffer": 7, "offset": 0}
        passed[14]["value"] = "0xfffffffffffffffe"
        report["arguments"] = {"list": passed}
        self.assertEqual(self.said(report), "arguments of __main__::oob: x = buffer #7, y = 0xb, n = -2")
        self.assertEqual([each["number"] for each in self.names.look_up(report, ())["arguments"]], [4, 11, 14])
        kernel.signature.args = (array("float32"), other("a record"))
        self.assertEqual(self.said(report), "")

    def test_arguments_of_warp_are_behind_the_bounds_of_the_launch(self) -> None:
        kernel = type("Kernel", (), {"__module__": "warp._src.context"})()
        kernel._mangled_name, kernel.arg_indices = "oob_b574a5d0", {"x": 0, "n": 1}
        kinds = (type("array", (), {})(), type("int32", (), {}))
        kernel.adj = types.SimpleNamespace(args=[types.SimpleNamespace(type=kind) for kind in kinds])
        array = {"size": 56, "pointers": [{"at": 8, "buffer": 8, "offset": 0}, {"at": 0, "buffer": 7, "offset": 4}]}
        report = self.launch(256)
        report["kernel"] |= {"symbol": "oob_b574a5d0_cuda_kernel_forward", "name": "oob_b574a5d0_cuda_kernel_forward"}
        report["arguments"] = {"list": [{"size": 32}, array, {"size": 4, "value": "0xffffffff"}]}
        self.assertEqual(self.said(report), "arguments of oob_b574a5d0_cuda_kernel_forward: x = buffer #7 +4, n = -1")
        report["kernel"]["symbol"] = "other_b574a5d0_cuda_kernel_forward"
        self.assertEqual(self.said(report), "")

    # ---- text ----

    def test_lines_keep_to_100_columns(self) -> None:
        known = [
            {"name": "model." + "layers.3." * 6 + "weight", "what": "parameter"},
            {"name": "w", "what": "local", "where": "step, train.py:4"},
        ]
        tensor = {"dtype": "float32", "shape": [1, 2, 3], "names": known}
        names = {"buffers": [{"buffer": 7, "tensors": [tensor]}]}
        lines = self.tell.text_of(report_of(0), names).splitlines()
        self.assertGreater(len(lines), 1)
        for line in lines:
            self.assertLessEqual(len(line), 100)
            self.assertTrue(line.startswith("==42== "))


PROGRAM = """
import sys, types
sys.path[:0] = [{package!r}, {tests!r}, {folder!r}]
import cufence
import simulated
import torch
from cufence import _tell
_tell.install()

device = simulated.Device("json={json},log={log}")

def step(model):
    batch = torch.Tensor(device.allocate(4000), (250, 4))
    device.fault(batch.storage.address + 4000)
    assert cufence.wait_reports(60)
    {then}

model = torch.Module()
model._parameters["weight"] = torch.Tensor(device.allocate(800), (200,))
step(model)
"""


@unittest.skipUnless(standin.LIBRARY.is_file(), "the library is not built")
class OnTheDevice(standin.InFolder):
    def setUp(self) -> None:
        super().setUp()
        standin.write_tensors(self.folder)
        self.kernel = simulated.build(self.folder, standin.c_compiler())

    def run_program(self, then: str) -> subprocess.CompletedProcess[str]:
        self.json, self.log = self.folder / "found.json", self.folder / "log.txt"
        code = PROGRAM.format(
            package=str(standin.PACKAGE),
            tests=str(Path(__file__).parent),
            folder=str(self.folder),
            json=self.json,
            log=self.log,
            then=textwrap.indent(textwrap.dedent(then), "    ").strip(),
        )
        script = self.folder / "train.py"
        script.write_text(code)
        variables = {simulated.VARIABLE: str(self.kernel), "CUFENCE_LIBRARY": str(standin.LIBRARY), "CUFENCE_DRIVER": "sim"}
        return standin.run(sys.executable, script, env={**os.environ, **variables})

    def records(self) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in self.json.read_text().splitlines()]
        return [line for line in lines if line.get("kind") not in ("run", "guarded")]

    WANTED = r"cufence: buffer #1?\d is batch in step, train\.py:\d+, float32\[250, 4\];[^;]*element\s"

    def test_an_exception_that_ends_the_program_gets_the_names(self) -> None:
        done = self.run_program("raise RuntimeError('CUDA error: an illegal memory access was encountered')")
        said = " ".join(line.partition("== ")[2].strip() for line in done.stderr.splitlines() if line.startswith("=="))
        self.assertRegex(said, self.WANTED)
        traceback = done.stderr.partition("Traceback (most recent call last)")[2]
        if hasattr(RuntimeError, "add_note"):
            self.assertRegex(traceback, r"CUDA error[^\n]*\ncufence: buffer #\d+ is batch in step")
        self.assertIn("is batch in step", self.log.read_text())
        first, second = self.records()
        self.assertEqual(second["names_of"]["headline"], first["headline"])
        self.assertEqual(second["names_of"]["time"], first["time"])
        self.assertEqual(second["names"]["buffers"][0]["buffer"], first["buffer"]["id"])
        self.assertEqual(second["names"]["buffers"][0]["tensors"][0]["index"], [250, 0])
        self.assertEqual(said.count("is batch in"), 1)
        if jsonschema is not None:
            schema = test_schema.closed(test_schema.SCHEMA)
            for record in (first, second, {**first, "names": second["names"]}):
                jsonschema.validate(record, schema)
            self.assertRaises(jsonschema.ValidationError, jsonschema.validate, {"schema": 2, "names": second["names"]}, schema)

    def test_another_exception_gets_no_note(self) -> None:
        done = self.run_program("raise KeyError('unrelated')")
        # The folder's name may have the word, so only the beginnings of lines are looked at.
        self.assertNotRegex(done.stderr.partition("Traceback (most recent call last)")[2].partition("\n==")[0], r"(?m)^cufence")

    def test_a_program_that_catches_it_asks_for_the_names(self) -> None:
        done = self.run_program("""
            report = cufence.last_report()
            tensor = report["names"]["buffers"][0]["tensors"][0]
            assert tensor["names"][0]["name"] == "batch" and tensor["dtype"] == "float32", tensor
            assert "is batch in step" in cufence.last_report_text()
            print("asked")
        """)
        self.assertIn("asked", done.stdout, done.stderr)
        self.assertEqual(len(self.records()), 2)  # written once

    def test_a_program_that_only_ends_has_them_at_exit(self) -> None:
        done = self.run_program("globals()['kept'] = batch")
        self.assertRegex(done.stderr, r"cufence: buffer #\d+ is kept \(global in (train\.py|__main__)\), float32\[250, 4\]")

    def test_a_forked_child_has_no_report(self) -> None:
        done = self.run_program("""
            globals()["kept"] = batch
            import os
            child = os.fork()
            if child:
                assert os.waitpid(child, 0)[1] == 0
            else:
                assert (cufence.fault_count(), cufence.last_report()) == (0, None)
        """)
        self.assertEqual(done.stderr.count("is kept (global in"), 1, done.stderr)
        self.assertEqual(len(self.records()), 2)

    def test_objects_that_raise_do_no_harm(self) -> None:
        done = self.run_program("""
            class Meta(type):
                def __hash__(cls): raise RuntimeError("hash")
                def __subclasscheck__(cls, other): raise RuntimeError("check")
            class Evil(metaclass=Meta):
                def __getattr__(self, name): raise RuntimeError(name)
                def __eq__(self, other): raise RuntimeError("equal")
            evil = Evil()
            many = [evil] * 10
            assert "is batch in step" in cufence.last_report_text()
            print("unharmed")
        """)
        self.assertIn("unharmed", done.stdout, done.stderr)

    def test_the_merged_list_is_that_of_the_findings(self) -> None:
        self.run_program("raise RuntimeError('CUDA error')")
        done = standin.run(standin.COMMAND, "report", self.json)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
