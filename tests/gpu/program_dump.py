"""Programs that want a core dump for themselves: when the driver reads their variables, and what they get under cufence.

    python3 tests/gpu/program_dump.py [--build FOLDER] [--json FILE] [CASE...]

Needs libcuda with its compiler of PTX, and the build alone. Exit status: 0; 1 if a case fails; 2 without a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from script import Cuda, run_script

# The warp is still there when its store faults. The simulated device has a kernel of that name.
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry write_last(.param .u64 out, .param .u32 n) {
  .reg .b32 %r<2>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r1;
  membar.gl;
  ret;
}
"""
ENABLE, FILE, FLAGS = 1, 5, 7  # CUcoredumpSettings
LIGHTWEIGHT = "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,skip_constbank_memory"
VARIABLES = {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_COREDUMP_FILE": "own.%h.%p.%t", "CUDA_COREDUMP_GENERATION_FLAGS": f"{LIGHTWEIGHT},skip_abort"}
MOMENTS = ("before the library", "before cuInit", "after cuInit", "after the context")
FAR = 1 << 40


def attribute(cuda: Cuda, what: str, number: int, value: bytes) -> str:
    """Calls cuCoredump<what>Global; returns its result, and the value."""
    room = ctypes.create_string_buffer(value, max(len(value), 1024))
    size = ctypes.c_size_t(len(value) if what == "SetAttribute" else len(room))
    result = getattr(cuda.library, f"cuCoredump{what}Global")(number, room, ctypes.byref(size))
    return f"{result} {room.raw[: size.value]!r}"


def play(what: str) -> None:
    way, _, moment = what.partition(":")

    def come_to(now: str) -> None:
        if moment == now:
            os.environ.update(VARIABLES)

    come_to(MOMENTS[0])
    cuda = Cuda()
    come_to(MOMENTS[1])
    cuda("cuInit", 0)
    come_to(MOMENTS[2])
    if way in ("attributes", "permanent"):
        for number, value in ((FILE, b"attribute\0"), (FLAGS, bytes([63, 0, 0, 0])), (ENABLE, b"\1")):
            print("set", number, attribute(cuda, "SetAttribute", number, value), flush=True)
    if way in ("attributes", "permanent", "defaults"):
        for number in (FILE, FLAGS, ENABLE):
            print("get", number, attribute(cuda, "GetAttribute", number, b""), flush=True)
    cuda.start()
    come_to(MOMENTS[3])
    buffer, count = ctypes.c_uint64(), ctypes.c_int(0)
    function = cuda.kernel(PTX, b"write_last")
    cuda("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(4096))
    if way == "trigger":
        pathlib.Path("trigger").write_text("1")
        time.sleep(10)
    else:
        cuda.launch(function, 1, 1, None, ctypes.c_uint64(buffer.value + FAR), count)
    print(f"sync={cuda.library.cuCtxSynchronize()}", flush=True)


def run(options: argparse.Namespace, what: str, is_guarded: bool, **variables: str) -> tuple[str, list[str]]:
    """Returns what is printed, with the exit status, and the dumps that it leaves."""
    command = [sys.executable, __file__, "--play", what]
    if is_guarded:
        command = [str(options.build / "bin/cufence"), "run", "--", *command]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        dumps = [f"{path.name} ({path.read_bytes()[:4]!r}, {path.stat().st_size} bytes)" for path in pathlib.Path(folder).iterdir() if path.is_file()]
        return f"{done.stdout}status {done.returncode}", dumps


def natively(name: str, options: argparse.Namespace) -> tuple[bool, str, list[str]]:
    if name == "when":
        lines = {moment: run(options, f"{name}:{moment}", False)[1] for moment in MOMENTS}
        is_ok = bool(lines[MOMENTS[1]]) and not lines[MOMENTS[2]] and not lines[MOMENTS[3]]
        return is_ok, "the driver reads its variables in cuInit", [f"set {moment}: {dumps}" for moment, dumps in lines.items()]
    text, dumps = run(options, f"{name}:{MOMENTS[1]}" if name == "permanent" else name, False)
    is_ok = name == "defaults" or not any("attribute" in dump for dump in dumps)
    return is_ok, "what the driver answers", [*text.splitlines(), str(dumps)]


def guarded(name: str, options: argparse.Namespace) -> tuple[bool, str, list[str]]:
    if name == "outside":
        text, dumps = run(options, name, True, **VARIABLES)
    elif name == "trigger":
        text, dumps = run(options, name, True, CUDA_ENABLE_USER_TRIGGERED_COREDUMP="1", CUDA_COREDUMP_PIPE="trigger", CUDA_COREDUMP_FILE="asked-for")
        return len(dumps) == 1 and "finding" not in text, "a dump that is asked for is no fault", [*text.splitlines(), str(dumps)]
    else:
        text, dumps = run(options, name if name == "attributes" else f"{name}:{MOMENTS[1]}", True)
    is_ok = len(dumps) == 1 and "b'\\x7fELF'" in dumps[0] and "1 finding" in text and "the program's own core dump: " in text
    return is_ok, f"a report, and the program's file: {dumps}", [] if is_ok else text.splitlines()


NATIVELY = ("when", "permanent", "defaults")


def judge(name: str, options: argparse.Namespace) -> tuple[bool, str, list[str]]:
    try:
        return natively(name, options) if name in NATIVELY else guarded(name, options)
    except subprocess.TimeoutExpired as error:
        return False, str(error), []


if __name__ == "__main__":
    sys.exit(run_script(__doc__, "program_dump", (*NATIVELY, "inside", "outside", "attributes", "trigger"), judge, play))
