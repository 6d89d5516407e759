"""What a correct program notices of cufence: each play as it is and under the preload library.

seen.leaves        the main thread calls pthread_exit(); the process must end as it does natively: by itself, by SIGTERM, or by SIGKILL
                   alone (the driver's own threads may keep it)
seen.outlives      as that, and another thread goes on, which ends the process with a status of its own
seen.busy          the program returns while a kernel waits for the host; it must end within 2 s of the native time
seen.idle          threads, descriptors, memory, signals and wake-ups of a program that has worked and does nothing
seen.meet          two kernels that wait for each other take every place on the device, and buffers whose slack is due are freed before and
                   between them
little_space.GIB   buffers of many sizes under `ulimit -v`. What runs natively must run guarded. Below 24 GiB CUDA itself may not be able to
                   start: then it must end by itself. Any other failure of the native run tests nothing, and fails

Nothing else may use the GPU. Needs libcuda and the build alone; LD_LIBRARY_PATH can name the simulated device's. Usage and exit status are as
in script.py.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading
import time

from script import MULTIPROCESSORS, THREADS_OF_EACH, Cuda, Judged, run_script

PATIENCE, LATER = 5.0, 2.0
ENDS = ["by itself", "by SIGTERM", "by SIGKILL"]
MOST_THREADS, MOST_DESCRIPTORS = 3, 32
SPIN = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry cusim_spin(.param .u64 flag)
{
    .reg .pred %p; .reg .u32 %r; .reg .u64 %a;
    ld.param.u64 %a, [flag];
again:
    ld.volatile.global.u32 %r, [%a];
    setp.eq.u32 %p, %r, 0;
    @%p bra again;
    ret;
}
"""
# A kernel of one word in `own` for each of its blocks, which stay until `other` has as many as are wanted, or 20 s have passed.
MEET = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry meet(.param .u64 own, .param .u64 other, .param .u32 wanted)
{
    .reg .pred %p; .reg .u32 %r<3>; .reg .u64 %a<5>;
    ld.param.u64 %a0, [own];
    ld.param.u64 %a1, [other];
    ld.param.u32 %r0, [wanted];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p, %r1, 0;
    @%p bra wait;
    atom.global.add.u32 %r2, [%a0], 1;
wait:
    bar.sync 0;
    mov.u64 %a2, %globaltimer;
again:
    ld.volatile.global.u32 %r2, [%a1];
    setp.ge.u32 %p, %r2, %r0;
    @%p bra done;
    mov.u64 %a3, %globaltimer;
    sub.u64 %a3, %a3, %a2;
    setp.lt.u64 %p, %a3, 20000000000;
    @%p bra again;
done:
    ret;
}
"""
CHECKED = re.compile(r"slack of (\d+) buffers? checked")


def work(cuda: Cuda) -> None:
    for size in range(1000, 60000, 1000):
        buffer = ctypes.c_uint64()
        cuda("cuMemAllocAsync", ctypes.byref(buffer), ctypes.c_size_t(size), None)
        cuda("cuMemsetD8_v2", buffer, 1, ctypes.c_size_t(size))
        cuda("cuMemFreeAsync", buffer, None)
    cuda("cuCtxSynchronize")


def leaves() -> None:
    work(Cuda().start())
    print("main leaves", flush=True)
    ctypes.CDLL(None).pthread_exit(None)


def outlives() -> None:
    cuda = Cuda().start()

    def go_on() -> None:
        while status_of(pathlib.Path("/proc/self/status"))["State"][0] != "Z":  # the main thread's
            time.sleep(0.01)
        work(cuda.start())
        print("the other thread goes on", flush=True)
        ctypes.CDLL(None).exit(3)

    threading.Thread(target=go_on).start()
    ctypes.CDLL(None).pthread_exit(None)


def busy() -> None:
    cuda, flag = Cuda().start(), ctypes.c_void_p()
    work(cuda)
    function = cuda.kernel(SPIN, b"cusim_spin")
    cuda("cuMemHostAlloc", ctypes.byref(flag), ctypes.c_size_t(4096), 3)
    ctypes.memset(flag, 0, 4096)
    cuda.launch(function, 1, 1, None, flag)
    print("a kernel waits", flush=True)


def status_of(file: pathlib.Path) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in file.read_text().splitlines() if ":\t" in line)


def our_threads() -> list[dict[str, str]]:
    statuses = [status_of(task / "status") for task in pathlib.Path("/proc/self/task").iterdir()]
    return [status for status in statuses if status["Name"].startswith("cufence")]


def wakeups() -> int:
    return sum(int(status["voluntary_ctxt_switches"]) for status in our_threads())


def idle() -> None:
    work(Cuda().start())
    for _ in range(30):
        before = wakeups()
        time.sleep(1)
        awake = wakeups() - before
        if not awake:
            break
    own = status_of(pathlib.Path("/proc/self/status"))
    print("signals", own["SigBlk"], own["SigIgn"], own["SigCgt"], flush=True)
    print(
        f"threads {len(our_threads())} descriptors {len(os.listdir('/proc/self/fd'))} wakeups {awake}"
        f" resident {own['VmRSS'].split()[0]} reserved {own['VmSize'].split()[0]}",
        file=sys.stderr,
    )


def fill(cuda: Cuda, stream: ctypes.c_void_p, sizes: range) -> list[tuple[ctypes.c_uint64, int]]:
    buffers = []
    for size in sizes:
        buffer = ctypes.c_uint64()
        cuda("cuMemAllocAsync", ctypes.byref(buffer), ctypes.c_size_t(size), stream)
        cuda("cuMemsetD8Async", buffer, size % 251, ctypes.c_size_t(size), stream)
        buffers.append((buffer, size))
    return buffers


def meet() -> None:
    """All memory is taken before the first kernel: a driver may let an allocation wait for the free of another stream."""
    cuda, words, streams = Cuda().start(), ctypes.c_uint64(), [ctypes.c_void_p(), ctypes.c_void_p()]
    function = cuda.kernel(MEET, b"meet")
    cuda("cuMemAlloc_v2", ctypes.byref(words), ctypes.c_size_t(8))
    cuda("cuMemsetD8_v2", words, 0, ctypes.c_size_t(8))
    for stream in streams:
        cuda("cuStreamCreate", ctypes.byref(stream), 1)
    blocks = cuda.attribute(MULTIPROCESSORS) * (cuda.attribute(THREADS_OF_EACH) // 1024) // 2
    wrong = 0
    for number in range(1, 21):
        kept = [fill(cuda, stream, range(1001, 1021)) for stream in streams]
        freed = [fill(cuda, stream, range(2001, 2041)) for stream in streams]
        cuda("cuCtxSynchronize")
        for mine, stream in enumerate(streams):
            for place, (buffer, _) in enumerate([*freed[mine], *freed[1 - mine]]):
                if place % 2 == mine:
                    cuda("cuMemFreeAsync", buffer, stream)
            flags = (ctypes.c_uint64(words.value + 4 * mine), ctypes.c_uint64(words.value + 4 - 4 * mine), ctypes.c_uint(blocks * number))
            cuda.launch(function, blocks, 1024, stream, *flags)
        for mine, stream in enumerate(streams):
            cuda("cuStreamSynchronize", stream)
            for buffer, size in kept[mine]:
                found = ctypes.create_string_buffer(size)
                cuda("cuMemcpyDtoH_v2", found, buffer, ctypes.c_size_t(size))
                wrong += found.raw != bytes([size % 251]) * size
                cuda("cuMemFreeAsync", buffer, stream)
    counts = (ctypes.c_uint * 2)()
    cuda("cuMemcpyDtoH_v2", counts, words, ctypes.c_size_t(8))
    print(f"{wrong} buffers are wrong; as many blocks as wanted: {list(counts) == [20 * blocks] * 2}", flush=True)


# ---- in a limited address space ----

MIB, GIB = 1 << 20, 1 << 30
SMALL, LARGE, ROUNDS = 400, 60, 3
ENOUGH = 24  # GiB, in which CUDA starts
START = re.compile(r"^(cuInit|cuDevicePrimaryCtxRetain): ")


def in_little_space() -> None:
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


PLAYS = {"leaves": leaves, "outlives": outlives, "busy": busy, "idle": idle, "meet": meet, "space": in_little_space}
PRELOAD = pathlib.Path("lib", "libcufence_preload.so")


def run_in(gib: int, preload: pathlib.Path | None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **({"LD_PRELOAD": str(preload)} if preload else {})}

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (gib * GIB, gib * GIB))

    return subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--play", "space"], env=environment, preexec_fn=limit, capture_output=True, text=True, timeout=120, check=False
    )


def verdict(gib: int, native: subprocess.CompletedProcess[str], guarded: subprocess.CompletedProcess[str]) -> tuple[bool, str]:
    if native.returncode == 0:
        is_same = (native.returncode, native.stdout) == (guarded.returncode, guarded.stdout)
        return is_same, "the same" if is_same else "DIFFERS"
    if gib >= ENOUGH or not START.match(native.stderr):
        return False, "NOTHING WAS TESTED, does something else use the GPU? Natively"
    return guarded.returncode in (0, 1), f"CUDA cannot start natively, and guarded it ends with {guarded.returncode}"


# ---- as a whole ----


class Run:
    """One play, to its end."""

    def __init__(self, play: str, preload: pathlib.Path | None) -> None:
        options = {"CUFENCE_OPTIONS": "say=verbose"} if play == "meet" else {}
        environment = {**os.environ, **({"LD_PRELOAD": str(preload), **options} if preload else {})}
        words = [sys.executable, os.path.abspath(__file__), "--play", play]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, env=environment, text=True, **pipes) as process:  # type: ignore[call-overload]
            assert process.stdout and process.stderr
            start = time.monotonic()
            begin = "" if play == "meet" else process.stdout.readline()
            if begin:
                start = time.monotonic()  # only the end is timed
            self.end = ENDS[0]
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    process.wait(PATIENCE if play == "leaves" else 60)
                    break
                except subprocess.TimeoutExpired:
                    process.send_signal(number)
                    self.end = f"by {number.name}"
            self.status = process.wait()
            self.seconds = time.monotonic() - start
            self.out, self.err = begin + process.stdout.read(), process.stderr.read()

    def figure(self, name: str) -> int:
        words = self.err.split()
        return int(words[words.index(name) + 1])


def problems_of(play: str, native: Run, guarded: Run) -> list[str]:
    if not native.out or (native.end == ENDS[0] and native.status != 3 * (play == "outlives")):
        return [f"NOTHING WAS TESTED: natively it fails with {native.status}. Does something else use the GPU?"]
    if play == "leaves" and ENDS.index(guarded.end) < ENDS.index(native.end):
        return []  # threads of the driver that cufence does not count as the program's
    found = [
        f"{what}: natively {a}, guarded {b}"
        for what, a, b in (("end", native.end, guarded.end), ("status", native.status, guarded.status), ("output", native.out, guarded.out))
        if a != b
    ]
    if guarded.seconds > native.seconds + LATER:
        found.append(f"the end takes {guarded.seconds:.1f} s, natively {native.seconds:.1f} s")
    if play == "meet" and not found:
        checked = sum(map(int, CHECKED.findall(guarded.err)))
        if not native.out.startswith("0 buffers") or "True" not in native.out or not checked:
            found.append(f"{native.out.strip()}, and the slack of {checked} buffers was checked")
    if play == "idle" and not found:
        more = guarded.figure("descriptors") - native.figure("descriptors")
        if guarded.figure("threads") > MOST_THREADS or more > MOST_DESCRIPTORS or guarded.figure("wakeups"):
            found.append(f"threads, descriptors or wake-ups: {guarded.err.strip()}")
    return found


def judge(name: str, options: argparse.Namespace) -> Judged:
    group, _, play = name.partition(".")
    preload = options.build.resolve() / PRELOAD
    if group == "little_space":
        alone, under = run_in(int(play), None), run_in(int(play), preload)
        is_ok, said = verdict(int(play), alone, under)
        return is_ok, f"{said}: {(alone.stdout or alone.stderr).strip()}", under.stderr.splitlines()
    native, guarded = Run(play, None), Run(play, preload)
    problems = problems_of(play, native, guarded)
    lines = [
        f"{which} ends {run.end} with {run.status} after {run.seconds:.2f} s: {run.err.strip()}"
        for which, run in (("natively", native), ("guarded", guarded))
    ]
    return not problems, "; ".join(problems) or "alike", lines


NAMES = (*(f"seen.{play}" for play in PLAYS if play != "space"), *(f"little_space.{gib}" for gib in (4, 8, 16, 24, 32, 64)))

if __name__ == "__main__":
    sys.exit(run_script(__doc__, "", NAMES, judge, lambda play: PLAYS[play]()))
