"""A kernel on the simulated device that reads a byte, for the processes that tests start. Imports nothing of the tests.

SIMULATED_KERNEL   the library that build() made
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from pathlib import Path

VARIABLE = "SIMULATED_KERNEL"

_SOURCE = """
void read_byte(const void *thread, void *const *arguments)
{
    (void)thread;
    (void)**(const volatile char *const *)arguments[0];
}
"""


class _Kernel(ctypes.Structure):
    """cusim_kernel, see allocator/sim/sim.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("argument_bytes", ctypes.POINTER(ctypes.c_size_t)),
        ("argument_count", ctypes.c_size_t),
        ("file", ctypes.c_char_p),
        ("line", ctypes.c_int),
        ("access_bytes", ctypes.c_uint32),
        ("is_atomic", ctypes.c_int),
        ("exits_at_fault", ctypes.c_int),
    ]


def build(folder: Path, compiler: str) -> Path:
    """Compiles the kernel and returns its path."""
    source, library = folder / "kernel.c", folder / "kernel.so"
    source.write_text(_SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", str(source), "-o", str(library)], check=True)
    return library


class Driver:
    """The simulated device, opened the way a program opens the CUDA driver, with a context. Independent of cufence."""

    def __init__(self, path: str) -> None:
        self.driver = ctypes.CDLL(path)
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.kernel = self._kernel(b"read_byte", 1)
        self.kernel_of_two = self._kernel(b"read_first", 2)

    def call(self, name: str, *arguments: object) -> None:
        result = getattr(self.driver, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: CUresult {result}")

    def _kernel(self, name: bytes, pointers: int) -> ctypes.c_void_p:
        self.code = ctypes.CDLL(os.environ[VARIABLE])
        sizes = (ctypes.c_size_t * pointers)(*[8] * pointers)
        address = ctypes.cast(self.code.read_byte, ctypes.c_void_p).value
        kernel = _Kernel(name, address, sizes, pointers, b"model.cu", 17, 1, 0, 0)
        self.driver.cusim_register_kernel(ctypes.byref(kernel))
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), b"any")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name)
        return function

    def allocate(self, size: int) -> int:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer.value

    def read(self, *addresses: int) -> None:
        """Launches a kernel of one thread that reads the byte at the first of one or two addresses."""
        values = [ctypes.c_uint64(address) for address in addresses]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
        kernel = self.kernel if len(values) == 1 else self.kernel_of_two
        self.call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")


class Device(Driver):
    """The same with cufence started, and buffers from its C API."""

    def __init__(self, options: str = "") -> None:
        from cufence import _library

        self.library = _library.load()
        self.library.cufence_malloc.argtypes = [
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_void_p,
        ]
        self.check = _library.check
        self.check(self.library.cufence_init(options.encode()), "cufence_init")
        super().__init__(str(Path(self.library._name).with_name("libcufence_sim.so")))

    def allocate(self, size: int) -> int:
        pointer = ctypes.c_void_p()
        self.check(self.library.cufence_malloc(ctypes.byref(pointer), size, 0, None), "cufence_malloc")
        assert pointer.value is not None
        return pointer.value

    def fault(self, address: int) -> None:
        """Reads a byte that is not there, and waits. The context fails once the fault is told, maybe within this wait."""
        self.read(address)
        with contextlib.suppress(RuntimeError):
            self.synchronize()
