"""The C functions of torch.h that allocate and free tensors, what is guarded and used, and cufence.poison(), as Python programs see them on the
simulated device."""

from __future__ import annotations

import subprocess
from typing import ClassVar

import standin

PRELUDE = """
import ctypes, sys
import cufence
from cufence import _library
library = _library.load()
_library.check(library.cufence_init(b""), "cufence_init")
from tensors import Mapping, alloc, detail, free
"""
POISON = """
import ctypes, sys, types
import cufence
from cufence import _library
library = _library.load()
_library.check(library.cufence_init(b""), "cufence_init")
driver = ctypes.CDLL(str(_library.find().with_name("libcufence_sim.so")))
def call(name, *arguments):
    result = getattr(driver, name)(*arguments)
    assert result == 0, (name, result)
context, stream = ctypes.c_void_p(), ctypes.c_void_p()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
call("cuStreamCreate", ctypes.byref(stream), 1)
from tensors import alloc
start = alloc(4000, 0, stream)

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


class Tensors(standin.RunsCode):
    prelude: ClassVar[str] = PRELUDE
    variables: ClassVar[dict[str, str]] = {"CUFENCE_OPTIONS": "say=quiet"}

    def test_scratch_of_its_cuda_library_is_aligned(self) -> None:
        made = str(self.folder / "libtorch_cuda.so")
        subprocess.run(["cc", "-shared", "-x", "c", "-", "-o", made], input="int asks(void) { return 1; }", text=True, check=True)
        self.run_code(
            """
torch_cuda = ctypes.CDLL(LIBRARY)
caller = ctypes.cast(torch_cuda.asks, ctypes.c_void_p).value
library.cufence_torch_installed()
large, small = 3 * 2**20 + 16, 4016  # more than cells are for, and less than cuDNN's kernels care for
assert alloc(large, 0, None, caller) % 512 == 0
assert (alloc(large) + large) % 2**21 == 0, "a tensor lies flush"
assert (alloc(small, 0, None, caller) + small) % 2**21 == 0
""".replace("LIBRARY", repr(made)),
            CUFENCE_OPTIONS="say=quiet,small=map",
        )

    def test_out_of_memory(self) -> None:
        self.run_code(
            "assert alloc(1 << 30) is None and detail().startswith('no memory for 1073741824 bytes'), detail()",
            CUFENCE_SIM="memory=256M",
        )

    def test_more_than_any_device_has(self) -> None:
        self.run_code(
            """
for power in (42, 50, 59):
    assert alloc(1 << power) is None and detail() == f"no device has {1 << power} bytes", detail()
assert alloc((1 << 64) - 1) is None
"""
        )

    def test_free_of_nothing(self) -> None:
        self.run_code("free(0x1234560); assert 'was not allocated by cufence' in detail(), detail()")

    def test_left_to_the_driver(self) -> None:
        self.run_code(
            """
address = alloc(100)
assert cufence.describe(address)["place"] == "unknown"
freed = free(address)
assert (freed.address, freed.size, freed.device) == (address, 100, 0)
assert list(cufence.unguarded().values())[0]["live_buffers"] == 0
""",
            CUFENCE_OPTIONS="say=quiet,skip=smaller:1K",
        )

    def test_figures(self) -> None:
        self.run_code(
            """
Figure = ctypes.c_int64 * 4  # current, peak, allocated, freed
class Figures(ctypes.Structure):
    _fields_ = [("buffers", Figure * 3), ("bytes", Figure * 3), ("mappings", Figure), ("mapped", Figure), ("slack", Figure),
                ("failures", ctypes.c_int64)]
def figures():
    figures = Figures()
    assert library.cufence_torch_get_figures(0, ctypes.byref(figures)) == 0
    return {name: [list(each) for each in getattr(figures, name)] for name in ("buffers", "bytes")} | {
        name: list(getattr(figures, name)) for name in ("mappings", "mapped", "slack")} | {"failures": figures.failures}
small, large = alloc(4000), alloc(3 << 20)
free(small)
now = figures()
assert now["buffers"] == [[1, 2, 2, 1], [0, 1, 1, 1], [1, 1, 1, 0]], now
assert now["bytes"] == [[3 << 20, (3 << 20) + 4000, (3 << 20) + 4000, 4000], [0, 4000, 4000, 4000], [3 << 20, 3 << 20, 3 << 20, 0]], now
assert now["mappings"] == [2, 2, 2, 0] and now["mapped"] == [6 << 20, 6 << 20, 6 << 20, 0], now
assert now["slack"][0] == 1 << 20 and now["failures"] == 0, now
library.cufence_torch_reset(0, 0)
library.cufence_torch_reset(0, 1)
cufence.trim()
assert alloc(1 << 40) is None
now = figures()
assert now["buffers"] == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]], now
assert now["mappings"] == [1, 2, 0, 1] and now["mapped"] == [4 << 20, 6 << 20, 0, 2 << 20] and now["failures"] == 1, now
"""
        )

    LIMIT = """
set_limit, limit = library.cufence_torch_set_limit, library.cufence_torch_limit
set_limit.argtypes, limit.restype = [ctypes.c_int, ctypes.c_double], ctypes.c_double
"""

    def test_limit(self) -> None:
        self.run_code(
            self.LIMIT
            + """
assert limit(0) == 1
assert set_limit(0, 1.5) == 1 and "between 0 and 1" in detail()
assert set_limit(0, 0.25) == 0 and limit(0) == 0.25
first = alloc(32 << 20)
assert first and alloc(33 << 20) is None
free(first)
assert alloc(63 << 20), "what is kept for reuse is given up"
assert set_limit(0, 1) == 0 and alloc(64 << 20)
assert set_limit(0, 0) == 0 and limit(0) == 0 and alloc(32 << 20) is None
""",
            CUFENCE_SIM="memory=256M",
        )

    def test_limit_from_the_first_buffer(self) -> None:
        self.run_code(
            self.LIMIT
            + """
assert set_limit(-1, 0.25) == 0 and limit(0) == 0.25
assert alloc(65 << 20) is None and alloc(33 << 20)
assert set_limit(0, 1) == 0 and limit(0) == 1 and alloc(65 << 20)
""",
            CUFENCE_SIM="memory=256M",
        )

    def test_checkpoint_of_a_pool(self) -> None:
        self.run_code(
            """
identity = (ctypes.c_uint64 * 2)(7, 0)
def live():
    out = ctypes.POINTER(Mapping)()
    count = library.cufence_torch_mappings(0, identity, 1, ctypes.byref(out))
    return out, count
def addresses():
    out, count = live()
    return sorted(out[i].buffer.address for i in range(count))
library.cufence_torch_mappings.restype = ctypes.c_size_t
All = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
everything = All(lambda stream, user: 1)
assert library.cufence_torch_pool_retain(0, identity) == 0
assert library.cufence_pool_begin(0, identity, everything, None, None) == 0
assert library.cufence_torch_pool_users(0, identity) == 2
kept, lost = alloc(4000), alloc(5000)
state, count = live()
assert addresses() == sorted([kept, lost]) and count == 2
free(lost)
other, more = alloc(100), alloc(3 << 20)
assert cufence.describe(lost)["buffer"]["size"] == 100, "it has the memory of the one that was freed"
assert library.cufence_torch_pool_restore(0, identity, state, count) == 0, detail()
assert addresses() == sorted([kept, lost])
assert cufence.describe(lost)["buffer"]["size"] == 5000 and cufence.describe(more)["place"] == "freed"
assert alloc(100) not in (kept, lost)
assert library.cufence_torch_pool_restore(0, identity, state, count) == 0, detail()
free(lost); free(kept)
assert addresses() == []
library.cufence_pool_end(0, identity); library.cufence_pool_release(0, identity)
assert library.cufence_torch_pool_users(0, identity) == 1
assert library.cufence_pool_release(0, identity) == 0 and library.cufence_torch_pool_users(0, identity) == 0
assert library.cufence_torch_pool_restore(0, identity, state, count) == 13, "its memory is gone"
"""
        )

    def test_pool_that_lends(self) -> None:
        for may_lend in (0, 1):
            self.run_code(
                f"""
identity = (ctypes.c_uint64 * 2)(7, 0)
everything = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda stream, user: 1)
assert library.cufence_torch_pool_lend(0, identity, 1) == 13, "there is none yet"
assert library.cufence_pool_begin(0, identity, everything, None, None) == 0
assert library.cufence_torch_pool_lend(0, identity, {may_lend}) == 0
free(alloc(200 << 20))
assert library.cufence_pool_end(0, identity) == 0
assert (alloc(100 << 20) is not None) == {bool(may_lend)}
""",
                CUFENCE_SIM="memory=256M",
            )

    def test_nothing_to_wait_for(self) -> None:
        """Of an unknown scope, and before cufence has begun."""
        self.run_code("assert library.cufence_torch_before_sync(7, 0) == 0")
        done = standin.run_python("from cufence import _library; print(_library.load().cufence_torch_before_sync(0, 0))")
        self.assertEqual(done.stdout, "0\n", done.stderr)

    def test_functions_of_python_choose(self) -> None:
        said = self.run_code(
            """
def optimizer():
    return alloc(4000, 0, None)
def forward():
    return alloc(4000, 0, None)
for _ in range(3):
    kept, left = forward(), optimizer()
    assert cufence.describe(kept)["place"] == "inside"
    assert cufence.describe(left)["place"] == "unknown"
    free(left)
rows = cufence.unguarded()
assert list(rows.values()) == [{"allocations": 3, "bytes": 12000, "live_buffers": 0, "live_bytes": 0}], rows
assert list(rows) == ["that skip names"], rows
assert cufence.stats()["unguarded_allocations"] == 3
library.cufence_record_stream(ctypes.c_void_p(optimizer()), None)
""",
            CUFENCE_OPTIONS="skip=func:optim*",
        )
        self.assertIn("not guarded: 4 buffers that skip names, 16000 bytes in all", said.stderr)
        self.assertNotIn("could not", said.stderr)

    def test_files_choose(self) -> None:
        self.run_code("assert cufence.describe(alloc(16))['place'] == 'unknown'", CUFENCE_OPTIONS="skip=file:<string>")


class Poison(standin.RunsCode):
    """Which bytes, on which stream, and what is said of a write and of other objects."""

    prelude: ClassVar[str] = POISON
    variables: ClassVar[dict[str, str]] = {"CUFENCE_OPTIONS": "on_fault=error/0"}

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
