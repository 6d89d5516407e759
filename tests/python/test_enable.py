"""enable() with a stand-in for PyTorch, the real library and the simulated device."""

from __future__ import annotations

import subprocess
import unittest
from pathlib import Path
from typing import ClassVar

import standin


@unittest.skipUnless(standin.has_compiler(), "no C++ compiler")
@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Enable(standin.InOneFolder):
    library: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        standin.make_torch(cls.folder)
        cls.library = standin.copy_library(cls.folder / "lib")
        standin.ship_class(cls.folder, cls.library)

    def run_code(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return standin.run_python(code, self.folder, **{"CUFENCE_LIBRARY": str(self.library), **environment})

    def check(self, code: str, **environment: str) -> None:
        done = self.run_code(code, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_memory(self) -> None:
        self.check(
            """
            import cufence
            cufence.enable(uaf="strict")
            from tensors import alloc, free
            with cufence.label("outer"), cufence.label("batch 17"):
                address = alloc(4000)
            other = alloc(10)
            inside = cufence.describe(address + 12)
            assert inside["place"] == "inside" and inside["offset"] == 12, inside
            buffer = inside["buffer"]
            assert (buffer["address"], buffer["size"], buffer["label"]) == (address, 4000, "batch 17"), buffer
            assert buffer["is_mapped"] is True and buffer["device"] == 0 and buffer["freed_ns"] == 0, buffer
            past = cufence.describe(address + 4000)
            assert (past["place"], past["offset"]) == ("past end", 0), past
            assert cufence.describe(0)["place"] == "unknown" and cufence.describe(0)["buffer"] is None

            class Tensor:
                def data_ptr(self):
                    return other
            assert cufence.describe(Tensor())["buffer"]["size"] == 10
            stats = cufence.stats()
            assert (stats["live_buffers"], stats["live_bytes"], stats["allocations"]) == (2, 4010, 2), stats
            assert cufence.stats(0)["live_buffers"] == 2 and stats["pytorch"] == "cufence"
            free(address)
            assert cufence.describe(address)["place"] == "freed"
            assert cufence.stats()["live_buffers"] == 1
            free(other)
            cufence.trim()
            cufence.trim(0)
            assert alloc(0) is None
            """
        )

    def test_reports_and_checks(self) -> None:
        self.check(
            """
            import cufence, torch
            cufence.enable(slack="on", log=torch.__file__ + "\\udcff")  # a name that is not UTF-8
            assert cufence.wait_reports(0.5) is True
            assert cufence.fault_count() == 0 and cufence.last_report() is None and cufence.last_report_text() is None
            from tensors import alloc
            alloc(1000)
            assert cufence.check() == 0 and cufence.check(0) == 0
            try:
                cufence.check(99)
            except ValueError as error:
                assert "99" in str(error)
            else:
                raise AssertionError("there is no device 99")
            """
        )

    def test_no_synchronisation_where_it_is_an_error(self) -> None:
        for answer in ("return True", "raise RuntimeError('CUDA error')"):
            self.check(
                f"""
                import cufence, torch, torch.cuda._gpu_trace as trace
                def answer():
                    {answer}
                torch._C._cuda_isCurrentStreamCapturing = answer
                cufence.enable()
                trace.registered["event"][0](0xDEAD)  # no event: to wait for it would crash
                trace.registered["device"][0]()
                """
            )

    def test_streams_are_created_one_by_one(self) -> None:
        self.check(
            """
            import cufence, threading, torch
            cufence.enable()
            made = []
            threads = [threading.Thread(target=lambda: made.append(torch.cuda.Stream(0, priority=-1))) for _ in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert len(made) == 8 and torch.cuda.Stream.most == 1, torch.cuda.Stream.most
            assert made[0].given == (0, -1, {}), made[0].given
            assert torch.cuda.Stream(stream_id=3).given == (None, 0, {"stream_id": 3})
            class Own(torch.cuda.Stream): pass
            assert type(Own()) is Own
            """
        )

    def test_twice(self) -> None:
        self.check(
            """
            import cufence
            assert not cufence.is_enabled()
            cufence.enable(uaf="strict", align=32)
            assert cufence.is_enabled()
            cufence.enable(align=32, uaf="strict")
            try:
                cufence.enable(align=64)
            except RuntimeError as error:
                assert isinstance(error, cufence.Error) and error.status == 4, error
            else:
                raise SystemExit("other options were taken")
            import torch, torch.cuda._gpu_trace as trace
            assert torch._C.is_traced and all(len(callbacks) == 1 for callbacks in trace.registered.values())
            from tensors import alloc
            alloc(4000)
            trace.registered["device"][0]()
            trace.registered["stream"][0](0)
            """
        )

    def run_preloaded(self, code: str, **environment: str) -> None:
        preload = str(self.library.with_name("libcufence_preload.so"))
        self.check(code, **{"LD_PRELOAD": preload, "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", **environment})

    def test_preloaded(self) -> None:
        self.run_preloaded(
            """
            import os, cufence
            from cufence import _library
            assert cufence.is_enabled()
            cufence.enable(uaf="strict")
            import sys
            assert "torch" not in sys.modules, "PyTorch has its allocator already"
            assert os.environ["CUFENCE_OPTIONS"] == "align=32,uaf=strict"
            _library.check(_library.load().cufence_init(None), "cufence_init")  # as the preload library does
            cufence.enable(uaf="strict")
            cufence.enable()
            try:
                cufence.enable(uaf="off")
            except cufence.Error as error:
                assert error.status == 4, error
            else:
                raise SystemExit("other options were taken")
            """,
            CUFENCE_OPTIONS="align=32",
        )

    def test_preloaded_with_the_native_back_end(self) -> None:
        self.run_preloaded(
            """
            import cufence
            assert not cufence.is_enabled()
            cufence.enable(uaf="strict")
            import torch
            assert cufence.is_enabled()
            """,
            PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
        )

    def test_labels_of_a_preloaded_library(self) -> None:
        self.run_preloaded(
            """
            import cufence
            from cufence import _library
            library = _library.loaded()
            assert library is not None, "it is at work, whether Python has asked for it or not"
            _library.check(library.cufence_init(None), "cufence_init")
            from tensors import alloc
            with cufence.label("layer3"):
                address = alloc(100)
            assert cufence.describe(address)["buffer"]["label"] == "layer3"
            """
        )

    def test_bad_options_may_be_put_right(self) -> None:
        """As the library says; unit.options has the others."""
        for run in (self.check, self.run_preloaded):
            run(
                """
                import cufence
                try:
                    cufence.enable(uaf="strickt")
                except ValueError as error:
                    assert "off | adaptive | strict" in str(error), error
                    cufence.enable(uaf="strict")
                assert cufence.is_enabled()
                """
            )

    def test_refusals(self) -> None:
        for code, environment, message in (
            ("", {"STANDIN_STARTED": "1"}, r"RuntimeError: cufence\.enable\(\) comes too late: .*before the first CUDA tensor"),
            ("import torch; torch._C.current = object()", {}, r"RuntimeError: cufence\.enable\(\): another CUDA allocator has been"),
            ("import torch; torch.version.cuda = None", {}, r"enable\(\) needs a PyTorch with CUDA; this one \(2\.11\.0\+standin\)"),
            ("import sys; sys.modules['torch'] = None", {}, r"ImportError: .* needs PyTorch, which cannot be imported here"),
            ("", {"STANDIN_REFUSES": "not today"}, "InstallError: not today"),
            ("import torch; torch.__version__ = '2.10.0'", {}, r"InstallError: PyTorch 2\.10\.0 .* 2\.11 to 2\.15\. Start .* 'cufence run'"),
            ("", {"CUFENCE_DRIVER": "/nonexistent/libcuda.so"}, r"cufence\._library\.Error: .*/nonexistent/libcuda\.so"),
            ("import cufence; cufence.stats()", {}, r"cufence\._library\.Error"),
        ):
            done = self.run_code(f"{code}\nimport cufence; cufence.enable()", **environment)
            self.assertRegex(done.stderr, message)

    def test_settings_while_it_is_installed(self) -> None:
        """PyTorch reads them then: of cudaMallocAsync it would ask the driver, which starts that."""
        settings = "backend:cudaMallocAsync,a:[1:2,2:4],b:1"
        self.check(
            """
            import ctypes, cufence, os
            try:
                cufence.enable()
            except Exception as error:
                assert str(error).startswith("a:[1:2,2:4],b:1. "), error
            else:
                raise AssertionError
            getenv = ctypes.CDLL(None).getenv
            getenv.restype = ctypes.c_char_p
            name = os.environ["STANDIN_REFUSES"]
            assert getenv(name.encode()).decode() == os.environ[name] == os.environ["SETTINGS"]
            """,
            PYTORCH_CUDA_ALLOC_CONF=settings,
            SETTINGS=settings,
            STANDIN_REFUSES="PYTORCH_CUDA_ALLOC_CONF",
        )
