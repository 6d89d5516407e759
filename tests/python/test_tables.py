"""cufence.index() with the real library and the simulated device, under `cufence run`."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

import simulated
import standin
from standin import BUILD

PROGRAM = """
import ctypes, cufence
from simulated import Driver
driver = Driver("libcuda.so.1")

class Tensor:
    def __init__(self, shape, dtype="torch.int32", start=None, strides=None):
        self.shape, self.dtype, self.device = shape, dtype, type("device", (), {"index": None})
        self.width = 8 if dtype.endswith("64") else 4
        self.strides = strides or tuple(self.count(shape[i + 1:]) for i in range(len(shape)))
        self.start = start or driver.allocate(self.count(shape) * self.width)
    def count(self, shape):
        product = 1
        for size in shape:
            product *= size
        return product
    def data_ptr(self): return self.start
    def stride(self): return self.strides
    def is_contiguous(self): return True
    def numel(self): return self.count(self.shape)
    def element_size(self): return self.width
    def fill(self, *values):
        kind = ctypes.c_int64 if self.width == 8 else ctypes.c_int32
        driver.call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.start), (kind * len(values))(*values), ctypes.c_size_t(self.width * len(values)))

class Array:
    def __init__(self, tensor, strides=None):
        self.shape = tensor.shape
        self.__cuda_array_interface__ = {"data": (tensor.start, False), "shape": self.shape, "typestr": f"<i{tensor.width}", "strides": strides}

def raises(kind, text, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)

cache, table = Tensor((8, 64), "torch.float32"), Tensor((3, 4))
launch = lambda: driver.read(cache.start, table.start)
"""


@unittest.skipUnless(standin.has_compiler(), "no C++ compiler")
@unittest.skipUnless((BUILD / "bin" / "cufence").is_file(), "no cufence: build first")
class Tables(unittest.TestCase):
    def run_code(self, code: str, *findings: str) -> None:
        """Runs the code; what cufence reports are findings with these words, in this order."""
        with tempfile.TemporaryDirectory() as folder:
            variables = {
                "PYTHONPATH": f"{standin.PACKAGE}:{Path(__file__).parent}",
                simulated.VARIABLE: str(simulated.build(Path(folder), standin.c_compiler())),
            }
            done = standin.cufence("run", "--", sys.executable, "-c", PROGRAM + code, **variables)
        self.assertEqual(done.returncode, 86 if findings else 0, done.stderr)
        headlines = [line for line in done.stderr.splitlines() if "cufence: wrong row: " in line]
        self.assertEqual(len(headlines), len(findings), done.stderr)
        for headline, words in zip(headlines, findings, strict=True):
            self.assertIn(words, headline)

    def test_rows_of_regions(self) -> None:
        self.run_code(
            """
kv = cufence.regions(cache, names="kv")
table.fill(0, 1, 2, 3, 4, 5, 6, 7, -1, -1, 0, 1)
cufence.index(table, into=kv)
launch()
driver.synchronize()
kv.take(6, owner="request 4")
kv.release(6)
launch()
""",
            "whose element 6 is row 6 of kv, which is free, released by request 4",
        )

    def test_rows_of_a_tensor(self) -> None:
        self.run_code(
            """
wide = Tensor((4,), "torch.int64")
wide.fill(0, 8, -1, -7)
cufence.index(wide, into=cache, allow=[-7])
driver.read(cache.start, wide.start)
""",
            "element 1 is 8, and the buffer has rows 0 to 7",
            "element 2 is -1, and the buffer has rows 0 to 7",
        )

    def test_a_view(self) -> None:
        self.run_code(
            """
table.fill(0, 1, 99, 99, 2, 3, 99, 99, 4, 88, 99, 99)
cufence.index(Tensor((3, 2), start=table.start, strides=(4, 1)), into=cache)
launch()
driver.synchronize()
every = Tensor((6,))
every.fill(0, 99, 1, 99, 77, 99)
cufence.index(Array(Tensor((3,), start=every.start), strides=(8,)), into=cache)
driver.read(cache.start, every.start)
""",
            "element 5 is 88,",
            "element 2 is 77,",
        )

    def test_an_owner_and_an_end(self) -> None:
        self.run_code(
            """
kv = cufence.regions(cache, names="kv")
kv.take(0, owner="request 7")
kv.take(1, owner="request 9")
mine = Tensor((2,), start=table.start)
cufence.index(mine, into=kv, owner="request 7")
table.fill(0, 1)
launch()
driver.synchronize()
cufence.index(Tensor((0,), start=table.start, strides=(1,)), into=kv)
table.fill(99)
launch()
""",
            "element 1 is row 1 of kv, which belongs to request 9, not to request 7",
        )

    def test_stop(self) -> None:
        self.run_code(
            """
table.fill(8)
cufence.index(Tensor((1,), start=table.start), into=cache, stop=True)
raises(RuntimeError, "cuLaunchKernel: CUresult 710", launch)
""",
            "would be given a table whose element 0 is 8",
        )

    def test_bad_input(self) -> None:
        self.run_code(
            """
raises(ValueError, "the elements are float32: only int32 and int64 can be checked", cufence.index, cache, into=cache)
raises(ValueError, "do not lie in runs of one length", cufence.index, Tensor((3, 2, 2), start=table.start, strides=(4, 2, 3)), into=cache)
raises(ValueError, "5 values in allow: at most 4", cufence.index, table, into=cache, allow=range(5))
raises(cufence.Error, "in no live buffer", cufence.index, Tensor((4,), start=4096), into=cache)
"""
        )

    def test_without_hooks(self) -> None:
        code = (
            "from simulated import Device; import cufence\n"
            "class Table:\n"
            "    shape, dtype = (4,), 'torch.int32'\n"
            "    def data_ptr(self): return start\n"
            "    def stride(self): return (1,)\n"
            "    def element_size(self): return 4\n"
            "class Cache(Table):\n"
            "    device = type('device', (), {'index': None})\n"
            "    def is_contiguous(self): return True\n"
            "    def numel(self): return 4\n"
            "start = Device().allocate(16)\n"
            "try: cufence.index(Table(), into=Cache())\n"
            "except cufence.Error as error: assert 'start the program with `cufence run`' in str(error), error\n"
            "else: raise AssertionError\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            built = str(simulated.build(Path(folder), standin.c_compiler()))
            done = standin.run_python(code, **{simulated.VARIABLE: built})
        self.assertEqual(done.returncode, 0, done.stderr)
