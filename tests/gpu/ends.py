"""A faulted program and its second launch in narrow surroundings: how either ends, and what is left.

    python3 tests/gpu/ends.py [--build FOLDER] [--rounds N] [--json FILE] [CASE...]

The program is this file: it compiles a kernel that writes one number past the end of a buffer. Needs libcuda with its compiler of
PTX, and the build alone; nothing else may use the GPU. ENDS_OPTIONS has more options for `cufence run`. A program that hangs is
killed; then the same is tried without cufence, with dumps to a file, and with more descriptors left. Exit status: 0; 1 if a case fails;
2 without a GPU.
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

from script import MULTIPROCESSORS, THREADS_OF_EACH, Cuda, run_script

COUNT = 100
HANGS, HANGS_NATIVELY = 60, 15  # seconds
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
# Every block stays for 0.5 s, but the first, whose last store faults, leaves 0.1 s before the others.
FULL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry write_last(.param .u64 out, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ctaid.x;
  setp.eq.u32 %p, %r3, 0;
  selp.b64 %rd3, 500000000, 600000000, %p;
  mov.u64 %rd4, %globaltimer;
AGAIN:
  mov.u64 %rd5, %globaltimer;
  sub.u64 %rd5, %rd5, %rd4;
  setp.lt.u64 %p, %rd5, %rd3;
  @%p bra AGAIN;
  setp.ne.u32 %p, %r3, 0;
  @%p bra DONE;
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
    cuda, buffer, count = Cuda().start(), ctypes.c_uint64(), ctypes.c_int(COUNT)
    function = cuda.kernel(FULL if way == "full" else PTX, b"write_last")
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
    if way == "full":
        blocks = cuda.attribute(MULTIPROCESSORS) * (cuda.attribute(THREADS_OF_EACH) // 1024)
        cuda.launch(function, blocks, 1024, None, buffer, count)
        print("the end", flush=True)
        return
    cuda.launch(function, 1, 128, None, buffer, count)
    print(f"sync={cuda.library.cuCtxSynchronize()}", flush=True)
    until = time.monotonic() + 3
    while way == "reaper" and time.monotonic() < until:
        try:
            sys.exit(f"wait() saw {os.waitpid(-1, os.WNOHANG)}")
        except ChildProcessError:
            time.sleep(0.001)


# ---- the cases ----

def start(build: pathlib.Path, way: str, folder: str) -> subprocess.Popen[str]:
    options = [*([] if way == "full" else ["--explain", "rerun"]), *os.environ.get("ENDS_OPTIONS", "").split()]
    command = [build / "bin/cufence", "run", *options, "--", sys.executable, __file__, "--play", way]
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
        if len(words) > 1 and words[1] == b"rerun" and words[0].endswith(b"cufence") and state(pid)[3:4] == [str(session)]:
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


def of_session(session: int) -> list[int]:
    pids = [int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if state(pid)[3:4] == [str(session)]]


def waits(session: int) -> str:
    """Where each thread of that session waits."""
    lines = []
    for pid in of_session(session):
        for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir()):
            words = []
            for name in ("comm", "wchan", "syscall"):
                try:
                    words.append((task / name).read_text().strip())
                except OSError as error:
                    words.append(error.strerror or "")
            lines.append(f"    thread {task.name} of {pid}: " + ", ".join(words))
        try:
            lines.append(f"    {pid} has {len(os.listdir(f'/proc/{pid}/fd'))} descriptors")
        except OSError:
            pass
    return "\n".join(lines)


def end_of(process: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    """Returns what it printed and, if it hangs, where; then it is killed."""
    try:
        return process.communicate(timeout=seconds)[0], ""
    except subprocess.TimeoutExpired:
        where = waits(process.pid)
        for pid in of_session(process.pid):
            os.kill(pid, signal.SIGKILL)
        return process.communicate()[0], where


def native(way: str) -> str:
    """What happens without cufence, with dumps to a file."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as dumps:
        variables = {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP": "1",
                     "CUDA_COREDUMP_GENERATION_FLAGS": "skip_abort", "CUDA_COREDUMP_FILE": f"{dumps}/core"}
        process = subprocess.Popen([sys.executable, __file__, "--play", way], env={**os.environ, **variables, "TMPDIR": folder},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        text, where = end_of(process, HANGS_NATIVELY)
        sizes = [path.stat().st_size for path in pathlib.Path(dumps).iterdir()]
        return f"    natively, {way}: {'hangs, ' if where else ''}status {process.returncode}, dumps {sizes}: {text.strip()}"


def told(build: pathlib.Path, way: str, folder: str) -> tuple[int, str]:
    process = start(build, way, folder)
    text, where = end_of(process, HANGS)
    if where:
        others = [way, "left16"] if way.startswith("left") else [way]
        raise AssertionError("\n".join([f"hangs for {HANGS} s", text, where, *map(native, others)]))
    return process.returncode, text


def explained(build: pathlib.Path, way: str, folder: str) -> str:
    status, text = told(build, way, folder)
    thread = [] if way == "full" else [f"thread ({COUNT},0,0)"]  # no barriers fit where every slot is taken
    for fact in ("0 bytes past the end of buffer #1", *thread, "written "):
        assert fact in text, f"missing: {fact}\n{text}"
    assert status == 86 and not os.listdir(folder), f"{status} {os.listdir(folder)} {text}"
    return "explained"


def missed(build: pathlib.Path, way: str, folder: str) -> str:
    """The driver has no descriptor for its dump: it may lose the fault, but nobody must take that for a correct program."""
    status, text = told(build, way, folder)
    said = [line.partition("== ")[2] for line in text.splitlines() if "==" in line]
    assert "sync=" in text and (status != 0 or "no file descriptor was left" in text), text
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


CASES: dict[str, tuple[Callable[..., str], str]] = {
    "as_it_is": (explained, "plain"),
    "reaper": (explained, "reaper"),
    "full": (explained, "full"),
    "killed": (killed, "plain"),
    "nine_descriptors": (explained, "left9"),
    "no_descriptor": (missed, "left0"),
}


def judge(name: str, options: argparse.Namespace) -> tuple[bool, str, list[str]]:
    case, way = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        try:
            return True, case(options.build.resolve(), way, folder, *([options.rounds] if case is killed else [])), []
        except AssertionError as error:
            return False, str(error), []


if __name__ == "__main__":
    sys.exit(run_script(__doc__, "ends", CASES, judge, play, {"rounds": 20}))
