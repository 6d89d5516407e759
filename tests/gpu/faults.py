"""Faulted programs in narrow surroundings: how they and their second launches end, what is left, and what they get themselves.

ends.*          with few descriptors, as a reaper of orphans, with a full device right before its end, killed during its second launch, and how long
                after the driver's dump the report comes where all threads of so many blocks fault. One that hangs is killed; then the same is
                tried without cufence, with dumps to a file, and with more descriptors left. ENDS_OPTIONS has more options for `cufence run`
loaded.*        many at a time, each with one write past its buffer, that synchronise their context, one stream, or nothing: none may end as
                if nothing had happened. A driver under load calls the work done, and begins its dump seconds later, or never
program_dump.*  programs that want a core dump for themselves: when the driver reads their variables, what it answers, and what they get

The program is this file, which compiles a kernel. Needs libcuda with its compiler of PTX, and the build alone; nothing else may use the GPU.
Usage and exit status are as in script.py.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import ctypes
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from script import MULTIPROCESSORS, THREADS_OF_EACH, Cuda, Judged, run_script

COUNT = 100
HANGS, HANGS_NATIVELY = 60, 15  # seconds
GONE = 0.2  # seconds that the second process may outlive the program
HEAD = b"""
.version 7.0
.target sm_70
.address_size 64
"""
# Threads up to number n store their numbers, the last one beyond the end of the buffer. WAITS is a line that others replace.
PTX = HEAD + b"""
.visible .entry write_last(.param .u64 out, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  // WAITS
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
# The warp is still there when its store faults: of one that has left, the driver writes no dump by itself.
STAYS = PTX.replace(b"%r2;\nDONE:", b"%r2;\n  membar.gl;\nDONE:")
# Every block stays for 0.3 s, but the first, whose last store faults, leaves 0.1 s before the others.
FULL = PTX.replace(b"  // WAITS\n", b"""
  mov.u32 %r3, %ctaid.x;
  setp.eq.u32 %p, %r3, 0;
  selp.b64 %rd3, 200000000, 300000000, %p;
  mov.u64 %rd4, %globaltimer;
AGAIN:
  mov.u64 %rd5, %globaltimer;
  sub.u64 %rd5, %rd5, %rd4;
  setp.lt.u64 %p, %rd5, %rd3;
  @%p bra AGAIN;
  setp.ne.u32 %p, %r3, 0;
  @%p bra DONE;
""")
BYTES = 12432
STORE_AT = HEAD + b"""
.visible .entry store_at(.param .u64 out, .param .u64 offset) {
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [offset];
  cvta.to.global.u64 %rd3, %rd1;
  add.u64 %rd4, %rd3, %rd2;
  st.global.u64 [%rd4], %rd2;
  ret;
}
"""
# Every thread stores, however many there are.
ALL = PTX.replace(b"mov.u32 %r2, %tid.x;", b"mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mul.lo.u32 %r2, %r2, %r3; mov.u32 %r3, %tid.x; add.u32 %r2, %r2, %r3;").replace(
    b"  @%p bra DONE;\n", b"")
REPORTED = 1200  # ms after the driver's dump is complete
OPTIONS = "uaf=strict,align=auto,explain=dump"
WAITS = ("context", "stream", "nothing")
ENABLE, FILE, FLAGS = 1, 5, 7  # CUcoredumpSettings
LIGHTWEIGHT = "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,skip_constbank_memory"
VARIABLES = {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_COREDUMP_FILE": "own.%h.%p.%t", "CUDA_COREDUMP_GENERATION_FLAGS": f"{LIGHTWEIGHT},skip_abort"}
MOMENTS = ("before the library", "before cuInit", "after cuInit", "after the context")
FAR = 1 << 40


# ---- how they end ----


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


def play_end(way: str) -> None:
    cuda, buffer, count = Cuda().start(), ctypes.c_uint64(), ctypes.c_int(COUNT)
    function = cuda.kernel(FULL if way == "full" else ALL if way.startswith("all") else PTX, b"write_last")
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
    cuda.launch(function, *((int(way[3:]), 256) if way.startswith("all") else (1, 128)), None, buffer, count)
    print(f"sync={cuda.library.cuCtxSynchronize()}", flush=True)
    until = time.monotonic() + 3
    while way == "reaper" and time.monotonic() < until:
        try:
            sys.exit(f"wait() saw {os.waitpid(-1, os.WNOHANG)}")
        except ChildProcessError:
            time.sleep(0.001)


def start(build: pathlib.Path, way: str, folder: str) -> subprocess.Popen[str]:
    own = [] if way == "full" else ["--set", "say=verbose"] if way.startswith("all") else ["--explain", "rerun"]
    options = [*own, *os.environ.get("ENDS_OPTIONS", "").split()]
    command = [build / "bin/cufence", "run", *options, "--", sys.executable, __file__, "--play", f"ends.{way}"]
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
        process = subprocess.Popen([sys.executable, __file__, "--play", f"ends.{way}"], env={**os.environ, **variables, "TMPDIR": folder},
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


def reported(build: pathlib.Path, way: str, folder: str) -> str:
    status, text = told(build, way, folder)
    took = re.search(r"parsed in (\d+), explained in (\d+), delivered in (\d+) ms", text)
    assert took and status == 86 and re.search(r"SUMMARY: cufence: .*\bwrite_last\b", text) and "#1" in text, f"{status} {text}"
    ms = sum(map(int, took.groups()))
    how = next((line for line in text.splitlines() if "longer than" in line or "to save time" in line), "")
    assert ms <= REPORTED, f"{ms} ms after the driver's dump\n{text}"
    return f"reported {ms} ms after the driver's dump {how}"


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


ENDS: dict[str, tuple[Callable[..., str], str]] = {
    "as_it_is": (explained, "plain"),
    "reaper": (explained, "reaper"),
    "full": (explained, "full"),
    **{f"all_{blocks}": (reported, f"all{blocks}") for blocks in (1, 100, 100000)},
    "killed": (killed, "plain"),
    "nine_descriptors": (explained, "left9"),
    "no_descriptor": (missed, "left0"),
}


def judge_end(name: str, options: argparse.Namespace) -> Judged:
    case, way = ENDS[name]
    with tempfile.TemporaryDirectory() as folder:
        try:
            return True, case(options.build.resolve(), way, folder, *([options.rounds] if case is killed else [])), []
        except AssertionError as error:
            return False, str(error), []


# ---- many at a time ----


def play_loaded(name: str) -> None:
    cuda = Cuda().start()
    buffer, stream = ctypes.c_uint64(), ctypes.c_void_p()
    cuda("cuStreamCreate", ctypes.byref(stream), 1)
    cuda("cuMemAlloc_v2", ctypes.byref(buffer), BYTES)
    cuda.launch(cuda.kernel(STORE_AT, b"store_at"), 1, 1, stream, buffer, ctypes.c_uint64(BYTES))
    if name != "nothing":
        error = cuda.library.cuCtxSynchronize() if name == "context" else cuda.library.cuStreamSynchronize(stream)
        print(f"synchronised: {error}", flush=True)


def kind_of(name: str, options: argparse.Namespace) -> tuple[str, str]:
    """Returns how the run has ended, and what it said."""
    command = [str(options.build / "bin" / "cufence"), "run", "--set", OPTIONS, "--", sys.executable, __file__, "--play", f"loaded.{name}"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False)
    except subprocess.TimeoutExpired:
        return "HANGS", ""
    text = done.stdout
    if done.returncode == 0:
        return "LOST: status 0", text
    if re.search(r"SUMMARY: cufence: .*\bstore_at\b.*\bbuffer #1\b", text):
        return "reported" if name == "nothing" or "synchronised: 700" in text else "reported, but the call said success", text
    return "not explained" if "unexplained fault" in text else f"status {done.returncode}", text


def judge_loaded(name: str, options: argparse.Namespace) -> Judged:
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(lambda _: kind_of(name, options), range(options.faults // len(WAITS))))
    kinds = collections.Counter(kind for kind, _ in runs)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    is_lost = any(not kind.startswith(("reported", "told")) for kind in kinds)
    samples = {kind: text for kind, text in runs if kind != "reported"}
    lines = [line for kind, text in samples.items() for line in (f"{kind}:", *text.splitlines()[-25:])]
    return not is_lost, f"{options.jobs} at a time in {time.monotonic() - began:.0f} s: {told}", lines


# ---- their own dumps ----


def attribute(cuda: Cuda, what: str, number: int, value: bytes) -> str:
    """Calls cuCoredump<what>Global; returns its result, and the value."""
    room = ctypes.create_string_buffer(value, max(len(value), 1024))
    size = ctypes.c_size_t(len(value) if what == "SetAttribute" else len(room))
    result = getattr(cuda.library, f"cuCoredump{what}Global")(number, room, ctypes.byref(size))
    return f"{result} {room.raw[: size.value]!r}"


def play_dump(what: str) -> None:
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
    function = cuda.kernel(STAYS, b"write_last")
    cuda("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(4096))
    if way == "trigger":
        pathlib.Path("trigger").write_text("1")
        time.sleep(10)
    else:
        cuda.launch(function, 1, 1, None, ctypes.c_uint64(buffer.value + FAR), count)
    print(f"sync={cuda.library.cuCtxSynchronize()}", flush=True)


def run_dump(options: argparse.Namespace, what: str, is_guarded: bool, **variables: str) -> tuple[str, list[str]]:
    """Returns what is printed, with the exit status, and the dumps that it leaves."""
    command = [sys.executable, __file__, "--play", f"program_dump.{what}"]
    if is_guarded:
        command = [str(options.build / "bin/cufence"), "run", "--", *command]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        dumps = [f"{path.name} ({path.read_bytes()[:4]!r}, {path.stat().st_size} bytes)" for path in pathlib.Path(folder).iterdir() if path.is_file()]
        return f"{done.stdout}status {done.returncode}", dumps


def natively(name: str, options: argparse.Namespace) -> Judged:
    if name == "when":
        lines = {moment: run_dump(options, f"{name}:{moment}", False)[1] for moment in MOMENTS}
        is_ok = bool(lines[MOMENTS[1]]) and not lines[MOMENTS[2]] and not lines[MOMENTS[3]]
        return is_ok, "the driver reads its variables in cuInit", [f"set {moment}: {dumps}" for moment, dumps in lines.items()]
    text, dumps = run_dump(options, f"{name}:{MOMENTS[1]}" if name == "permanent" else name, False)
    is_ok = name == "defaults" or not any("attribute" in dump for dump in dumps)
    return is_ok, "what the driver answers", [*text.splitlines(), str(dumps)]


def guarded(name: str, options: argparse.Namespace) -> Judged:
    if name == "outside":
        text, dumps = run_dump(options, name, True, **VARIABLES)
    elif name == "trigger":
        text, dumps = run_dump(options, name, True, CUDA_ENABLE_USER_TRIGGERED_COREDUMP="1", CUDA_COREDUMP_PIPE="trigger", CUDA_COREDUMP_FILE="asked-for")
        return len(dumps) == 1 and "finding" not in text, "a dump that is asked for is no fault", [*text.splitlines(), str(dumps)]
    else:
        text, dumps = run_dump(options, name if name == "attributes" else f"{name}:{MOMENTS[1]}", True)
    is_ok = len(dumps) == 1 and "b'\\x7fELF'" in dumps[0] and "1 finding" in text and "the program's own core dump: " in text
    return is_ok, f"a report, and the program's file: {dumps}", [] if is_ok else text.splitlines()


NATIVELY = ("when", "permanent", "defaults")


def judge_dump(name: str, options: argparse.Namespace) -> Judged:
    try:
        return natively(name, options) if name in NATIVELY else guarded(name, options)
    except subprocess.TimeoutExpired as error:
        return False, str(error), []


GROUPS = {
    "ends": (play_end, judge_end, ENDS),
    "loaded": (play_loaded, judge_loaded, WAITS),
    "program_dump": (play_dump, judge_dump, (*NATIVELY, "inside", "outside", "attributes", "trigger")),
}


def play(name: str) -> None:
    group, _, what = name.partition(".")
    GROUPS[group][0](what)


def judge(name: str, options: argparse.Namespace) -> Judged:
    group, _, what = name.partition(".")
    return GROUPS[group][1](what, options)


if __name__ == "__main__":
    names = [f"{group}.{name}" for group, (_, _, names) in GROUPS.items() for name in names]
    sys.exit(run_script(__doc__, "", names, judge, play, {"rounds": 20, "faults": 501, "jobs": 20}))
