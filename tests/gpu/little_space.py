"""Programs in a limited address space (`ulimit -v`): as they are, and under the preload library.

    python3 tests/gpu/little_space.py [--build FOLDER] [--json FILE] [GIB...]

Each allocates, writes, reads and frees buffers of many sizes. What runs natively must run guarded. Below 24 GiB CUDA itself may not be
able to start: then it must end by itself. Any other failure of the native run tests nothing, and fails. Needs libcuda and the build
alone; nothing else may use the GPU. Exit status: 0; 1 if one fails; 2 without a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import re
import resource
import subprocess
import sys

from harness import Result
from results import write_json

MIB, GIB = 1 << 20, 1 << 30
SMALL, LARGE, ROUNDS = 400, 60, 3
ENOUGH = 24  # GiB, in which CUDA starts
START = re.compile(r"^(cuInit|cuDevicePrimaryCtxRetain): ")


class Cuda:
    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: object) -> None:
        error = getattr(self.library, name)(*arguments)
        if error:
            sys.exit(f"{name}: error {error}")


def play() -> None:
    cuda = Cuda()
    context, device = ctypes.c_void_p(), ctypes.c_int()
    cuda("cuInit", 0)
    cuda("cuDeviceGet", ctypes.byref(device), 0)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    trial = ctypes.c_uint64()
    # With a limit the driver has no room for its pools (measured), and stream-ordered memory fails natively too.
    has_pools = cuda.library.cuMemAllocAsync(ctypes.byref(trial), ctypes.c_size_t(4), None) == 0
    sizes = [4 + number for number in range(SMALL)] + [(number % 7) * MIB + 4 for number in range(LARGE)]
    for _ in range(ROUNDS):
        buffers = [ctypes.c_uint64() for _ in sizes]
        for number, (buffer, size) in enumerate(zip(buffers, sizes)):
            if number % 2 or not has_pools:
                cuda("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(size))
            else:
                cuda("cuMemAllocAsync", ctypes.byref(buffer), ctypes.c_size_t(size), None)
            cuda("cuMemsetD32_v2", buffer, number, ctypes.c_size_t(1))
        for number, buffer in enumerate(buffers):
            value = ctypes.c_uint32()
            cuda("cuMemcpyDtoH_v2", ctypes.byref(value), buffer, ctypes.c_size_t(4))
            assert value.value == number, (number, value.value)
            if number % 2 or not has_pools:
                cuda("cuMemFree_v2", buffer)
            else:
                cuda("cuMemFreeAsync", buffer, None)
        cuda("cuCtxSynchronize")
    print("every buffer was right", flush=True)


def run(gib: int, preload: pathlib.Path | None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"LD_PRELOAD": str(preload)} if preload else {})}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (gib * GIB, gib * GIB))

    return subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--play"], env=environment, preexec_fn=limit, capture_output=True, text=True, timeout=120, check=False
    )


def verdict(gib: int, native: subprocess.CompletedProcess[str], guarded: subprocess.CompletedProcess[str]) -> tuple[bool, str]:
    if native.returncode == 0:
        is_same = (native.returncode, native.stdout) == (guarded.returncode, guarded.stdout)
        return is_same, "the same" if is_same else "DIFFERS"
    if gib >= ENOUGH or not START.match(native.stderr):
        return False, "NOTHING WAS TESTED, does something else use the GPU? Natively"
    return guarded.returncode in (0, 1), f"CUDA cannot start natively, and guarded it ends with {guarded.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("gib", type=int, nargs="*", metavar="GIB", help="4 8 16 24 32 64")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        play()
        return 0
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(f"skipped: {error}")
        return 2
    preload = arguments.build.resolve() / "lib" / "libcufence_preload.so"
    results = []
    for gib in arguments.gib or [4, 8, 16, 24, 32, 64]:
        native, guarded = run(gib, None), run(gib, preload)
        is_ok, said = verdict(gib, native, guarded)
        results.append(Result(f"little_space_{gib}", is_ok, f"{said}: {(native.stdout or native.stderr).strip()}"))
        print(f"{gib} GiB: {results[-1].detail}")
        print("".join(f"    {line}\n" for line in guarded.stderr.splitlines()), end="", flush=True)
    if arguments.json:
        write_json(results, arguments.json)
    return int(not all(result.ok for result in results))


if __name__ == "__main__":
    sys.exit(main())
