"""What the scripts that need libcuda alone share: the driver through ctypes, and how such a script begins and ends.

Each plays its programs as processes of its own: itself with `--play NAME`.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from harness import Result
from results import write_json

MULTIPROCESSORS, THREADS_OF_EACH = 16, 39  # CUdevice_attribute


class Cuda:
    """The driver; a call that fails ends the process."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.device = ctypes.c_int()

    def __call__(self, name: str, *arguments: object) -> None:
        error = getattr(self.library, name)(*arguments)
        if error:
            sys.exit(f"{name}: error {error}")

    def start(self) -> Cuda:
        """Makes the primary context of device 0 current."""
        context = ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", ctypes.byref(self.device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self("cuCtxSetCurrent", context)
        return self

    def attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def kernel(self, image: bytes, name: bytes) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), image)
        self("cuModuleGetFunction", ctypes.byref(function), module, name)
        return function

    def launch(self, function: ctypes.c_void_p, blocks: int, threads: int, stream: ctypes.c_void_p | None, *values: ctypes._SimpleCData) -> None:
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, None)


def run_script(
    doc: str | None,
    prefix: str,
    names: Iterable[str],
    play: Callable[[str], None],
    judge: Callable[[str, argparse.Namespace], tuple[bool, str, list[str]]],
    numbers: dict[str, int] | None = None,
    needs_device: bool = False,
) -> int:
    """Judges the names that are asked for, or all: whether it is well, in a line, and lines besides. `numbers`: more options, with their
    defaults. Returns the exit status."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path(__file__).resolve().parents[2] / "build")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--play", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    for name, default in (numbers or {}).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if options.play:
        play(options.play)
        return 0
    try:
        library = ctypes.CDLL("libcuda.so.1")
        if needs_device and library.cuInit(0):
            raise OSError("cuInit failed")
    except OSError as error:
        print(f"skipped: {error}")
        return 2
    results = []
    for name in options.names or names:
        is_ok, detail, lines = judge(name, options)
        results.append(Result(f"{prefix}_{name}", is_ok, detail))
        print(f"{'ok    ' if is_ok else 'FAILED'} {name}: {detail}", *(f"    {line}" for line in lines), sep="\n", flush=True)
    if options.json:
        write_json(results, options.json)
    return int(not all(result.ok for result in results))
