"""A kernel into whose code no barriers fit: the report has block and thread by emulation (docs/how-faults.md), and so has
that of `cufence replay` of its bundle, with other arguments and memory too.

    python3 tests/gpu/unfenced.py [--arch sm_90] [KERNEL...]

nvcc compiles the kernel, and the last NOP behind its end is replaced by another instruction, which nothing reaches: cufence does
not know then where the code ends. Exit status: 0 if the reports are as they should be, 1 if not, 2 without nvcc or a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CUFENCE_BUILD") or ROOT / "build")
SOURCE = r"""extern "C" __global__ void store_first(float *out, const int *last, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        out[i] = 2.5f; // FAULT
}

extern "C" __global__ void store_listed(float *out, const int *places, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[places[i]] = 2.5f; // FAULT
}
"""
NOP = struct.pack("<QQ", 0x7918, 0x000FC00000000000)
MOVE = struct.pack("<QQ", 0x0000000400057802, 0x000FCA0000000F00)  # MOV R5, 0x4
COUNT = 1000
# Kernel -> what its report says.
CASES = {
    "store_first": [r"0 bytes past the end of buffer #\d+", r"block \(7,0,0\) thread \(104,0,0\)"],
    "store_listed": [r"0 bytes past the end of buffer #\d+", r"block \(3,0,0\) thread \(53,0,0\)"],
}
FOLLOWED = r"are emulated|address .*\b(exact|re-run)"  # now and then a dump does have the warp: then nothing is emulated
# Kernel -> replays: arguments, exit status, what they say. Element 0 of the array `places` is COUNT + 1, all others are 0.
REPLAYS = {
    "store_first": [
        (["--set-arg", "2=999"], 0, [r"did not fault"]),
        (["--set-arg", "2=1010"], 86, [r"block \(7,0,0\) thread \(104,0,0\) and 10 more", r"2 +1010\b", FOLLOWED]),
        (["--no-guards"], 0, [r"2 bytes other than 0 were written 2 bytes past the end"]),
    ],
    "store_listed": [
        (["--set-arg", "2=437"], 0, [r"did not fault"]),
        (["--buffer", "1=places.npy"], 86, [r"block \(0,0,0\) thread \(0,0,0\)", r"4 bytes past the end of", FOLLOWED]),
    ],
}
# The warp has left when the dump is taken, and is emulated, unless one of the two dumps was quick enough to have it.
ALWAYS = [r"written +4 bytes past the end: 2\.5", r"address .*(re-run|exact)"]


def sections(image: bytes) -> list[tuple[str, int, int]]:
    """Name, offset and size of each section of an ELF file."""
    table, count, names = struct.unpack_from("<Q", image, 40)[0], *struct.unpack_from("<HH", image, 60)
    rows = [struct.unpack_from("<IIQQQQ", image, table + 64 * i) for i in range(count)]
    start = rows[names][4]
    return [(image[start + row[0] : image.index(0, start + row[0])].decode(), row[4], row[5]) for row in rows]


def spoil(cubin: Path) -> None:
    """Puts an instruction behind the end of each kernel."""
    image = bytearray(cubin.read_bytes())
    for name, offset, size in sections(bytes(image)):
        if name.startswith(".text."):
            end = offset + size - 16
            assert image[end : end + 8] == NOP[:8], f"{name} does not end with a NOP"
            image[end : end + 16] = MOVE
    cubin.write_bytes(image)


def launch(cubin: str, kernel: str) -> int:
    """The program: it uses the driver alone, and knows nothing of cufence."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        error = getattr(cuda, name)(*arguments)
        if error:
            print(f"{name}: error {error}", flush=True)
            os._exit(3)

    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    out, places = ctypes.c_uint64(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    image = Path(cubin).read_bytes()
    call("cuModuleLoadData", ctypes.byref(module), image)
    call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
    call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(4 * COUNT))
    call("cuMemAlloc_v2", ctypes.byref(places), ctypes.c_size_t(4 * COUNT))
    listed = (ctypes.c_int * COUNT)(*range(COUNT))
    listed[3 * 128 + 53] = COUNT
    call("cuMemcpyHtoD_v2", places, listed, ctypes.c_size_t(4 * COUNT))
    count = ctypes.c_int(COUNT)
    values = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in (out, places, count)))
    call("cuLaunchKernel", function, 8, 1, 1, 128, 1, 1, 0, None, values, None)
    call("cuCtxSynchronize")
    return 0


def write_places(path: Path) -> None:
    """The array as numpy.save() writes it, without numpy."""
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({COUNT},), }}"
    path.write_bytes(b"\x93NUMPY\1\0\x76\0" + header.ljust(117).encode() + b"\n" + struct.pack(f"<{COUNT}i", COUNT + 1, *[0] * (COUNT - 1)))


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of `cufence`, with the long lines of a report whole."""
    command = [str(BUILD / "bin" / "cufence"), *arguments]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
    return done.returncode, re.sub(r"\n==\d+== +", " ", done.stdout.decode(errors="replace"))


def check(what: str, got: tuple[int, str], status: int, facts: list[str]) -> bool:
    missing = [fact for fact in facts if not re.search(fact, got[1])]
    is_ok = got[0] == status and not missing
    print(f"{'ok      ' if is_ok else 'FAILED  '} {what}")
    if not is_ok:
        print(f"status {got[0]}, not {status}, or not found:", *missing, got[1], sep="\n")
    return is_ok


def play(cubin: Path, kernel: str) -> bool:
    folder = Path(cubin.parent, kernel)
    folder.mkdir()
    write_places(folder / "places.npy")
    facts = CASES[kernel] + ALWAYS
    program = [sys.executable, __file__, "--launch", str(cubin), kernel]
    results = [check(kernel, run(folder, "run", "--explain", "rerun", "--set", "keep=replay=.", "--", *program), 3, facts)]
    bundles = sorted(folder.glob("fault-*"))
    if len(bundles) != 1:
        print(f"FAILED   {kernel}: {len(bundles)} bundles, not 1")
        return False
    for arguments, status, says in [([], 86, facts), *REPLAYS[kernel]]:
        what = " ".join([kernel, "replay", *arguments])
        results.append(check(what, run(folder, "replay", *arguments, bundles[0].name), status, says))
    return all(results)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="of those below; all by default")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--launch", nargs=2, metavar=("CUBIN", "KERNEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.launch:
        return launch(*arguments.launch)
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        print("unfenced: no GPU here")
        return 2
    if not Path(nvcc).exists():
        print("unfenced: no nvcc here")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder, "unfenced.cu"), Path(folder, "unfenced.cubin")
        source.write_text(SOURCE)
        subprocess.run([nvcc, "-cubin", "-lineinfo", f"-arch={arguments.arch}", "-o", str(cubin), source.name], cwd=folder, check=True)
        spoil(cubin)
        return 0 if all([play(cubin, kernel) for kernel in arguments.kernels or CASES]) else 1


if __name__ == "__main__":
    sys.exit(main())
