"""A faulted program and its second launch in narrow surroundings: how either ends, and what is left.

    python3 tests/gpu/ends.py [--build FOLDER] [--rounds N]

The program is this file: it compiles a kernel that writes one number past the end of a buffer. Needs libcuda with its compiler of
PTX, and the build alone. ENDS_OPTIONS has more options for `cufence run`. Exit status: 0; 1 if a case fails; 2 without a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

COUNT = 100
GONE = 0.2  # seconds that the second process may outlive the program
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry write_last(.param .u64 out, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.gt.u32 %p, %r2, %r1;
  @%p bra DONE;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd2, %rd2, %rd3;
  st.global.u32 [%rd2], %r2;
DONE:
  ret;
}
"""


# ---- the program ----

class Cuda:
    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: object) -> None:
        error = getattr(self.library, name)(*arguments)
        if error:
            sys.exit(f"{name}: error {error}")


def use_up(left: int) -> None:
    """Leaves so many descriptors."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    taken = []
    try:
        while True:
            taken.append(os.dup(2))
    except OSError:
        pass
    for descriptor in taken[len(taken) - left:]:
        os.close(descriptor)


def play(way: str) -> None:
    cuda = Cuda()
    context, device, module, function = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    buffer, count = ctypes.c_uint64(), ctypes.c_int(COUNT)
    cuda("cuInit", 0)
    cuda("cuDeviceGet", ctypes.byref(device), 0)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    cuda("cuModuleLoadData", ctypes.byref(module), PTX)
    cuda("cuModuleGetFunction", ctypes.byref(function), module, b"write_last")
    cuda("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(COUNT * 4))
    cuda("cuMemsetD8_v2", buffer, 0, ctypes.c_size_t(COUNT * 4))
    cuda("cuCtxSynchronize")
    names = os.listdir(os.environ["TMPDIR"])
    if names:
        sys.exit(f"in TMPDIR: {names}")
    if way == "reaper":
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    if way.startswith("left"):
        use_up(int(way[4:]))
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), ctypes.addressof(count))
    cuda("cuLaunchKernel", function, 1, 1, 1, 128, 1, 1, 0, None, arguments, None)
    print(f"sync={cuda.library.cuCtxSynchronize()}", flush=True)
    until = time.monotonic() + 3
    while way == "reaper" and time.monotonic() < until:
        try:
            sys.exit(f"wait() saw {os.waitpid(-1, os.WNOHANG)}")
        except ChildProcessError:
            time.sleep(0.001)


# ---- the cases ----

def start(build: pathlib.Path, way: str, folder: str) -> subprocess.Popen[str]:
    command = [build / "bin/cufence", "run", "--witness", "on", *os.environ.get("ENDS_OPTIONS", "").split(), "--", sys.executable,
               __file__, "--play", way]
    return subprocess.Popen([str(word) for word in command], env={**os.environ, "TMPDIR": folder}, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, start_new_session=True)


def state(pid: int) -> list[str]:
    """Its letter, the number of its parent, and more; nothing if there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def stages(session: int) -> list[int]:
    """The second processes that run now for programs of that session."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        pid = int(path.parent.name)
        if len(words) > 1 and words[1] == b"stage" and words[0].endswith(b"cufence") and state(pid)[3:4] == [str(session)]:
            found.append(pid)
    return found


def is_running(pid: int) -> bool:
    return bool(state(pid)) and state(pid)[0] not in "ZX"


def program_of(stage: int) -> int:
    """The program is the parent of the process in between."""
    between = state(stage)
    found = state(int(between[1])) if between else []
    return int(found[1]) if found else 0


def await_that(condition: Callable[[], object], seconds: float) -> float:
    """Returns how long it took."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > seconds:
            raise AssertionError(f"not so after {seconds} s")
        time.sleep(0.001)
    return time.monotonic() - begin


def told(build: pathlib.Path, way: str, folder: str) -> tuple[int, str]:
    process = start(build, way, folder)
    text = process.communicate(timeout=120)[0]
    return process.returncode, text


def explained(build: pathlib.Path, way: str, folder: str) -> str:
    status, text = told(build, way, folder)
    for fact in ("0 bytes past the end of buffer #1", f"thread ({COUNT},0,0)", "written "):
        assert fact in text, text
    assert status == 86 and not os.listdir(folder), f"{status} {os.listdir(folder)} {text}"
    return "explained"


def missed(build: pathlib.Path, way: str, folder: str) -> str:
    """The driver has no descriptor for its dump: the fault is not explained, but it must not be missed either."""
    status, text = told(build, way, folder)
    said = [line.partition("== ")[2] for line in text.splitlines() if "==" in line]
    assert status != 0, text
    return f"status {status}: {said[-1] if said else text}"


def killed(build: pathlib.Path, way: str, folder: str, rounds: int) -> str:
    slowest, seen = 0.0, 0
    for number in range(rounds):
        process = start(build, way, folder)
        try:
            await_that(lambda: stages(process.pid) or process.poll() is not None, 60)
            stage = stages(process.pid)
            program = program_of(stage[0]) if stage else 0
            time.sleep(0.01 * number)  # it takes some 0.2 s
            if program > 1 and is_running(stage[0]):
                os.kill(program, signal.SIGKILL)  # that one alone
                slowest = max(slowest, await_that(lambda: not is_running(stage[0]), 30))
                seen += 1
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        assert not os.listdir(folder), os.listdir(folder)
    assert seen, "no second launch was hit"
    assert slowest <= GONE, f"the second process lived on for {slowest:.3f} s"
    return f"gone {slowest * 1000:.0f} ms after the program, at most, in {seen} of {rounds} rounds"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--play")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "build")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    if options.play:
        play(options.play)
        return 0
    try:
        if ctypes.CDLL("libcuda.so.1").cuInit(0):
            raise OSError("cuInit failed")
    except OSError as error:
        print(f"no GPU: {error}")
        return 2
    failed = 0
    cases = {
        "as it is": (explained, "plain"),
        "a reaper of orphans": (explained, "reaper"),
        "two descriptors left": (explained, "left2"),
        "no descriptor left": (missed, "left0"),
        "killed in a second launch": (lambda *words: killed(*words, options.rounds), "plain"),
    }
    for name, (judge, way) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"ok    {name}: {judge(options.build.resolve(), way, folder)}", flush=True)
            except AssertionError as error:
                failed = 1
                print(f"FAILED {name}: {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
