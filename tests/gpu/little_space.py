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

from script import Cuda, run_script

MIB, GIB = 1 << 20, 1 << 30
SMALL, LARGE, ROUNDS = 400, 60, 3
ENOUGH = 24  # GiB, in which CUDA starts
START = re.compile(r"^(cuInit|cuDevicePrimaryCtxRetain): ")


def play(_: str) -> None:
    cuda, trial = Cuda().start(), ctypes.c_uint64()
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
        [sys.executable, os.path.abspath(__file__), "--play", "it"], env=environment, preexec_fn=limit, capture_output=True, text=True, timeout=120, check=False
    )


def verdict(gib: int, native: subprocess.CompletedProcess[str], guarded: subprocess.CompletedProcess[str]) -> tuple[bool, str]:
    if native.returncode == 0:
        is_same = (native.returncode, native.stdout) == (guarded.returncode, guarded.stdout)
        return is_same, "the same" if is_same else "DIFFERS"
    if gib >= ENOUGH or not START.match(native.stderr):
        return False, "NOTHING WAS TESTED, does something else use the GPU? Natively"
    return guarded.returncode in (0, 1), f"CUDA cannot start natively, and guarded it ends with {guarded.returncode}"


def judge(name: str, options: argparse.Namespace) -> tuple[bool, str, list[str]]:
    native, guarded = run(int(name), None), run(int(name), options.build.resolve() / "lib" / "libcufence_preload.so")
    is_ok, said = verdict(int(name), native, guarded)
    return is_ok, f"{said}: {(native.stdout or native.stderr).strip()}", guarded.stderr.splitlines()


if __name__ == "__main__":
    sys.exit(run_script(__doc__, "little_space", ("4", "8", "16", "24", "32", "64"), judge, play))
