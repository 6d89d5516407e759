"""cufence.poison() and unpoison() on the simulated device: which bytes, on which stream, and what is said of a write and of other objects."""

from __future__ import annotations

import subprocess
import unittest

import standin

PRELUDE = """
import ctypes, sys, types
import cufence
from cufence import _library
library = _library.load()
_library.check(library.cufence_init(b""), "cufence_init")
driver = ctypes.CDLL(str(_library.find().with_name("libcufence_sim.so")))
def call(name, *arguments):
    result = getattr(driver, name)(*arguments)
    assert result == 0, (name, result)
context, stream, pointer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuStreamCreate", ctypes.byref(stream), 1)
library.cufence_malloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
assert library.cufence_malloc(ctypes.byref(pointer), 4000, 0, stream) == 0
start = pointer.value

def write(at, count, stream=stream):
    call("cuMemsetD8Async", ctypes.c_uint64(at), ctypes.c_ubyte(1), ctypes.c_size_t(count), stream)

class Array:
    def __init__(self, at, shape, typestr="<f4", strides=None):
        self.__cuda_array_interface__ = {"data": (at, False), "shape": shape, "typestr": typestr, "strides": strides, "version": 3}

class Tensor:
    def __init__(self, at, shape, contiguous=True, device=0):
        self.at, self.shape, self.contiguous, self.device = at, shape, contiguous, types.SimpleNamespace(index=device)
    def data_ptr(self): return self.at
    def numel(self): return self.shape[0]
    def element_size(self): return 2
    def is_contiguous(self): return self.contiguous
    def stride(self): return (7,)

def refused(kind, text, function, *arguments, **how):
    try:
        function(*arguments, **how)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")
def last():
    assert cufence.wait_reports(60)
    return cufence.last_report()["slack"]["poisoned"]
"""


@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Poison(unittest.TestCase):
    def run_code(self, code: str) -> subprocess.CompletedProcess[str]:
        done = standin.run_python(PRELUDE + code, CUFENCE_OPTIONS="on_fault=error/0")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_an_array(self) -> None:
        done = self.run_code(
            """
row = Array(start + 1000, (25, 10))
cufence.poison(row, stream=stream.value)
assert cufence.check() == 0
write(start, 1000)
write(start + 2000, 2000)
assert cufence.check() == 0, "its neighbours"
write(start + 1996, 4)
assert cufence.check() == 1
assert (last()["start"], last()["bytes"], last()["stream"]) == (hex(start + 1000), 1000, hex(stream.value)), last()
assert last()["frames"][0]["function"] == "<module>", last()
cufence.unpoison(row, stream=stream.value)
write(start, 4000)
assert cufence.check() == 0 and cufence.fault_count() == 1
refused(cufence.Error, "none of the 1000 bytes", cufence.unpoison, row, stream=stream.value)
"""
        )
        self.assertIn("WRITE to poisoned memory: 4 bytes changed, from byte 996 of the 1000 poisoned ones on, in buffer #1\n", done.stderr)

    def test_a_tensor_on_the_current_stream_of_its_device(self) -> None:
        self.run_code(
            """
asked = []
def current_stream(device):
    asked.append(device)
    return types.SimpleNamespace(cuda_stream=stream.value)
sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(current_stream=current_stream))
row = Tensor(start + 2000, (500,))
cufence.poison(row)
write(start + 2000, 2)
cufence.unpoison(row)
cufence.check()  # or another thread finds it
assert cufence.wait_reports(60) and cufence.fault_count() == 1
assert (last()["bytes"], last()["stream"], asked) == (1000, hex(stream.value), [0, 0]), (last(), asked)
"""
        )

    def test_streams_of_others(self) -> None:
        self.run_code(
            """
row = Array(start, (4000,), "|u1")
for given in (types.SimpleNamespace(cuda_stream=stream.value), types.SimpleNamespace(ptr=stream.value), stream.value, None):
    cufence.poison(row, stream=given)
    write(start, 1, ctypes.c_void_p(0) if given is None else stream)
    found = cufence.check()
    assert found == 1, (given, found)
    assert last()["stream"] == (hex(stream.value) if given is not None else "0x0"), (given, last())
    cufence.unpoison(row, stream=given)
    call("cuStreamSynchronize", stream)  # the next one does not wait for it
"""
        )

    def test_what_is_refused(self) -> None:
        self.run_code(
            """
refused(TypeError, "a int is neither a tensor nor has it __cuda_array_interface__", cufence.poison, start)
refused(ValueError, "a tensor of shape (4,) and strides (7,) is not contiguous", cufence.poison, Tensor(start, (4,), False))
refused(ValueError, "an array with strides (80,) is not contiguous", cufence.unpoison, Array(start, (4,), strides=(80,)))
refused(ValueError, "0 bytes from", cufence.poison, Array(start, (0, 4)))
refused(ValueError, "are not in one live buffer that cufence guards", cufence.poison, Array(start + 4, (1000,)))
refused(ValueError, "are not in one live buffer that cufence guards", cufence.poison, Array(ctypes.addressof(context), (2,)))
"""
        )


if __name__ == "__main__":
    unittest.main()
