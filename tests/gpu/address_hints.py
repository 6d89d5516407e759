"""Which wishes for an address the driver grants: in a plain process, and in one that compute-sanitizer or cuda-gdb has started.

    python3 tests/gpu/address_hints.py [--only NAME]

`cufence replay` needs buffers at the addresses of another process. For each process this prints where the driver itself places
memory, and a table of cuMemAddressReserve() with a wish: "granted", "->" and the address that was given instead, or the error.
It needs libcuda and nothing of cufence. A tool that is not there is skipped. Exit status: 0, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
SIZES = {"1 GiB": GIB, "64 GiB": 64 * GIB, "1 TiB": TIB}
WISHES = {
    **{f"{n} GiB": n * GIB for n in (1, 4, 8, 12, 13, 16, 32, 64, 128, 256, 512)},
    **{f"{n} TiB": n * TIB for n in (1, 2, 4, 8, 16, 32, 64)},
    "1 TiB + 2 MiB": TIB + 2 * MIB,
    "1 TiB + 32 MiB": TIB + 32 * MIB,
    "62 TiB": 62 * TIB,
}
PROGRAM = [sys.executable, os.path.abspath(__file__), "--probe"]
PROCESSES = {
    "plain": PROGRAM,
    "compute-sanitizer": ["compute-sanitizer", "--tool", "memcheck", *PROGRAM],
    "compute-sanitizer, racecheck": ["compute-sanitizer", "--tool", "racecheck", *PROGRAM],
    "cuda-gdb": ["cuda-gdb", "-nx", "-batch", "-ex", "run", "--args", *PROGRAM],
}


class Driver:
    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: object) -> int:
        return int(getattr(self.cuda, name)(*arguments))

    def reserve(self, size: int, wish: int) -> tuple[int, int]:
        """Error and address; what was reserved is given back."""
        address = ctypes.c_uint64()
        error = self.call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0), ctypes.c_uint64(wish), ctypes.c_uint64(0))
        if not error:
            self.call("cuMemAddressFree", address, ctypes.c_size_t(size))
        return error, address.value

    def allocate(self) -> str:
        address, host = ctypes.c_uint64(), ctypes.c_void_p()
        errors = [
            self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(MIB)),
            self.call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(MIB), 2),
        ]
        return f"cuMemAlloc 0x{address.value:x}, cuMemHostAlloc 0x{host.value or 0:x}" + (f", errors {errors}" if any(errors) else "")


def outcome(result: tuple[int, int], wish: int) -> str:
    error, address = result
    if error:
        return f"error {error}"
    return "granted" if address == wish else f"-> 0x{address:x}"


def print_table(driver: Driver, when: str) -> None:
    own = ", ".join(f"{name} at 0x{driver.reserve(size, 0)[1]:x}" for name, size in {**SIZES, "64 TiB": 64 * TIB}.items())
    print(f"  {when}: by itself the driver reserves {own}")
    for name, wish in WISHES.items():
        cells = [outcome(driver.reserve(size, wish), wish) for size in SIZES.values()]
        print(f"    {name:16}" + "".join(f"{cell:22}" for cell in cells).rstrip())


def probe() -> int:
    driver, context = Driver(), ctypes.c_void_p()
    if driver.call("cuInit", 0):
        print("  no GPU here")
        return 2
    print("    wish for" + " " * 8 + "".join(f"{size:22}" for size in SIZES).rstrip())
    print_table(driver, "without a context")
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    driver.call("cuCtxSetCurrent", context)
    print(f"  {driver.allocate()}")
    print_table(driver, "with a context")
    sys.stdout.flush()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PROCESSES, help="this process alone")
    parser.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        return probe()
    status = 0
    for name, command in PROCESSES.items():
        if options.only and name != options.only:
            continue
        print(f"{name}:", flush=True)
        if not shutil.which(command[0]):
            print("  not installed")
            continue
        done = subprocess.run(command, timeout=300, check=False)
        if name == "plain":
            status = done.returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
