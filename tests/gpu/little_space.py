"""Programs in a limited address space (`ulimit -v`): as they are, and under the preload library.

    python3 tests/gpu/little_space.py [--build FOLDER] [--gib 4 8 16 24 32 64]

Each allocates, writes, reads and frees buffers of many sizes. What runs natively must run guarded; where it fails natively, as
below 8 GiB, where CUDA itself cannot start, it must end by itself. Needs libcuda and the build alone. Exit status: 0; 1 if one
does not; 2 without a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import resource
import subprocess
import sys

MIB, GIB = 1 << 20, 1 << 30
SMALL, LARGE, ROUNDS = 400, 60, 3


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
    sizes = [4 + number for number in range(SMALL)] + [(number % 7) * MIB + 4 for number in range(LARGE)]
    for _ in range(ROUNDS):
        buffers = [ctypes.c_uint64() for _ in sizes]
        for number, (buffer, size) in enumerate(zip(buffers, sizes)):
            if number % 2:
                cuda("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(size))
            else:
                cuda("cuMemAllocAsync", ctypes.byref(buffer), ctypes.c_size_t(size), None)
            cuda("cuMemsetD32_v2", buffer, number, ctypes.c_size_t(1))
        for number, buffer in enumerate(buffers):
            value = ctypes.c_uint32()
            cuda("cuMemcpyDtoH_v2", ctypes.byref(value), buffer, ctypes.c_size_t(4))
            assert value.value == number, (number, value.value)
            if number % 2:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--gib", type=int, nargs="+", default=[4, 8, 16, 24, 32, 64])
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
    has_failed = False
    for gib in arguments.gib:
        native, guarded = run(gib, None), run(gib, preload)
        is_same = (native.returncode, native.stdout) == (guarded.returncode, guarded.stdout)
        is_fine = is_same or (native.returncode != 0 and guarded.returncode in (0, 1))
        has_failed |= not is_fine
        print(f"{gib} GiB: {'the same' if is_same else 'fails natively only' if is_fine else 'DIFFERS'}: {(native.stdout or native.stderr).strip()}")
        print("".join(f"    {line}\n" for line in guarded.stderr.splitlines()), end="", flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
