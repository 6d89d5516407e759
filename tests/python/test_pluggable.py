"""The plain C entry points for CUDAPluggableAllocator, as PyTorch calls them, on the simulated device."""

from __future__ import annotations

import subprocess
import unittest

import standin

PRELUDE = """
import ctypes, sys
import cufence
from cufence import _library
library = _library.load()
_library.check(library.cufence_init(b""), "cufence_init")
library.cufence_torch_alloc.restype = ctypes.c_void_p
library.cufence_torch_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.cufence_torch_free.restype = None
library.cufence_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
library.cufence_torch_record_stream.restype = None
library.cufence_torch_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
library.cufence_torch_reset.restype = None
alloc, free = library.cufence_torch_alloc, library.cufence_torch_free
"""


@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Pluggable(unittest.TestCase):
    def run_code(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = standin.run_python(PRELUDE + code, **{"CUFENCE_OPTIONS": "say=quiet", **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_life_of_a_buffer(self) -> None:
        done = self.run_code(
            """
address = alloc(4000, 0, None)
assert cufence.describe(address)["buffer"]["size"] == 4000
library.cufence_torch_record_stream(address, None)
free(address, 4000, 0, None)
assert cufence.stats()["live_buffers"] == 0
library.cufence_torch_reset()
assert alloc(0, 0, None) is None
free(None, 0, 0, None)
"""
        )
        self.assertEqual(done.stderr, "")

    def test_out_of_memory(self) -> None:
        done = self.run_code("assert alloc(1 << 30, 0, None) is None", CUFENCE_SIM="memory=256M")
        self.assertRegex(done.stderr, r"^cufence: cannot allocate 1073741824 bytes on GPU 0 for PyTorch: \S")
        self.assertRegex(done.stderr, r"^[^\n]*\n==\d+== cufence: NOTHING WAS GUARDED: [^\n]*\n$")

    def test_free_of_nothing(self) -> None:
        done = self.run_code("free(0x1234560, 16, 0, None)")
        self.assertRegex(done.stderr, r"^cufence: PyTorch could not free 0x1234560 \(16 bytes on GPU 0\): \S")

    def test_record_stream_of_foreign_memory(self) -> None:
        done = self.run_code("library.cufence_torch_record_stream(0x1234560, None)")
        self.assertRegex(done.stderr, r"^==\d+== cufence: NOTHING WAS GUARDED: this process created no CUDA context\n$")

    def test_unknown_scope(self) -> None:
        self.run_code("assert library.cufence_torch_before_sync(7, 0) == 0")

    def test_before_initialisation(self) -> None:
        done = standin.run_python("from cufence import _library; print(_library.load().cufence_torch_before_sync(0, 0))")
        self.assertEqual(done.stdout, "0\n", done.stderr)
