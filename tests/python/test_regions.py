"""cufence.regions() with the real library and the simulated device."""

from __future__ import annotations

import unittest

import standin

TENSOR = """
import cufence
cufence.enable()
from tensors import alloc, free

class Tensor:
    def __init__(self, rows, row_bytes, address=None):
        self.shape, self.device = (rows, row_bytes), type("device", (), {"index": None})
        self.address = alloc(rows * row_bytes) if address is None else address
    def data_ptr(self): return self.address
    def is_contiguous(self): return True
    def numel(self): return self.shape[0] * self.shape[1]
    def element_size(self): return 1

class Array:
    strides = None
    def __init__(self, tensor):
        self.shape = tensor.shape
        self.__cuda_array_interface__ = {"data": (tensor.address, False), "shape": self.shape, "typestr": "<u1",
                                         "strides": self.strides, "version": 3}

def raises(kind, text, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
"""


@unittest.skipUnless(standin.has_compiler(), "no C++ compiler")
@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Regions(standin.InOneFolder):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        standin.make_torch(cls.folder)

    def check(self, code: str) -> str:
        done = standin.run_python(TENSOR + code, self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_states(self) -> None:
        self.check(
            """
cache = Tensor(8, 1000)
kv = cufence.regions(cache, names="kv")
assert (len(kv), kv.row_bytes, kv.address(3)) == (8, 1000, cache.address + 3000)
kv.take(3, owner="request 4")
assert cufence.describe(cache.address + 3007)["region"] == "row 3 of kv (live, owner request 4)"
kv.release(3)
assert "row 3 of kv (free, released " in cufence.describe(cache.address + 3000)["region"]
raises(cufence.Error, "is free already", kv.release, 3)
raises(IndexError, "row 8", kv.take, 8)
kv.release(range(4, 6))
raises(cufence.Error, "row 3 of kv (free, ", kv.release, [7, 3])
assert [("free" in cufence.describe(kv.address(row))["region"]) for row in range(8)] == [row in (3, 4, 5) for row in range(8)]
kv.take([4, 5], owner="request 5")
assert cufence.describe(kv.address(5))["region"] == "row 5 of kv (live, owner request 5)"
class Number:  # as NumPy's, and a tensor's
    def __init__(self, value): self.value = value
    def __index__(self): return self.value
kv.release(Number(5))
kv.take([Number(5)], owner="request 6")
assert cufence.describe(kv.address(Number(5)))["region"] == "row 5 of kv (live, owner request 6)"
kv.take([])
kv.gone()
assert cufence.describe(cache.address)["region"] is None
raises(cufence.Error, "no region begins at", kv.take, 3)
assert len(cufence.regions(Array(cache), rows=4)) == 4
free(cache.address)
raises(cufence.Error, "lies in no live buffer of cufence", cufence.regions, cache)
"""
        )

    def test_bad_input(self) -> None:
        self.check(
            """
cache = Tensor(8, 1000)
raises(ValueError, "8000 bytes cannot be divided into 7 rows", cufence.regions, cache, rows=7)
raises(ValueError, "cannot be divided into 0 rows", cufence.regions, cache, rows=0)
raises(TypeError, "neither a tensor", cufence.regions, 5)
Array.strides = (2000, 1)
raises(ValueError, "not contiguous", cufence.regions, Array(cache))
cufence.regions(cache, names="kv")
raises(ValueError, 'overlap those of "kv", 8 rows of 1000 bytes', cufence.regions, Tensor(2, 1000, cache.address), names="other")
raises(ValueError, "past the end of buffer", cufence.regions, Tensor(9, 1000, cache.address))
"""
        )
