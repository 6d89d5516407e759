"""What a correct program notices of cufence: each play as it is and under the preload library.

    python3 tests/gpu/seen.py [--build FOLDER] [PLAY...]

leaves: the main thread calls pthread_exit(); the process must end as it does natively: by itself, by SIGTERM, or by SIGKILL alone (the
driver's own threads may keep it). busy: the program returns while a kernel waits for the host; it must end within 2 s of the native time. idle: threads, descriptors,
memory, signals and wake-ups of a program that has worked and does nothing. Needs libcuda and the build alone; LD_LIBRARY_PATH can
name the simulated device's. Exit status: 0; 1 if a play differs; 2 without a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

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


class Cuda:
    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        context, device = ctypes.c_void_p(), ctypes.c_int()
        self("cuInit", 0)
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def __call__(self, name: str, *arguments: object) -> None:
        error = getattr(self.library, name)(*arguments)
        if error:
            sys.exit(f"{name}: error {error}")

    def work(self) -> None:
        for size in range(1000, 60000, 1000):
            buffer = ctypes.c_uint64()
            self("cuMemAllocAsync", ctypes.byref(buffer), ctypes.c_size_t(size), None)
            self("cuMemsetD8_v2", buffer, 1, ctypes.c_size_t(size))
            self("cuMemFreeAsync", buffer, None)
        self("cuCtxSynchronize")


def leaves() -> None:
    Cuda().work()
    print("main leaves", flush=True)
    ctypes.CDLL(None).pthread_exit(None)


def busy() -> None:
    cuda = Cuda()
    cuda.work()
    module, function, flag = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    cuda("cuModuleLoadData", ctypes.byref(module), SPIN)
    cuda("cuModuleGetFunction", ctypes.byref(function), module, b"cusim_spin")
    cuda("cuMemHostAlloc", ctypes.byref(flag), ctypes.c_size_t(4096), 3)
    ctypes.memset(flag, 0, 4096)
    arguments = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(flag), ctypes.c_void_p))
    cuda("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
    print("a kernel waits", flush=True)


def status_of(file: pathlib.Path) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in file.read_text().splitlines() if ":\t" in line)


def our_threads() -> list[dict[str, str]]:
    statuses = [status_of(task / "status") for task in pathlib.Path("/proc/self/task").iterdir()]
    return [status for status in statuses if status["Name"].startswith("cufence")]


def wakeups() -> int:
    return sum(int(status["voluntary_ctxt_switches"]) for status in our_threads())


def idle() -> None:
    Cuda().work()
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


PLAYS = {"leaves": leaves, "busy": busy, "idle": idle}


class Run:
    """One play, to its end."""

    def __init__(self, play: str, preload: pathlib.Path | None) -> None:
        environment = {**os.environ, **({"LD_PRELOAD": str(preload)} if preload else {})}
        words = [sys.executable, os.path.abspath(__file__), "--play", play]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, env=environment, text=True, **pipes) as process:  # type: ignore[call-overload]
            assert process.stdout and process.stderr
            begin = process.stdout.readline()  # from here on, only the end is timed
            start = time.monotonic()
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
    if play == "leaves" and ENDS.index(guarded.end) < ENDS.index(native.end):
        return []  # threads of the driver that cufence does not count as the program's
    found = [
        f"{what}: natively {a}, guarded {b}"
        for what, a, b in (("end", native.end, guarded.end), ("status", native.status, guarded.status), ("output", native.out, guarded.out))
        if a != b
    ]
    if guarded.seconds > native.seconds + LATER:
        found.append(f"the end takes {guarded.seconds:.1f} s, natively {native.seconds:.1f} s")
    if play == "idle" and not found:
        more = guarded.figure("descriptors") - native.figure("descriptors")
        if guarded.figure("threads") > MOST_THREADS or more > MOST_DESCRIPTORS or guarded.figure("wakeups"):
            found.append(f"threads, descriptors or wake-ups: {guarded.err.strip()}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--play", choices=PLAYS, help=argparse.SUPPRESS)
    parser.add_argument("plays", nargs="*", metavar="PLAY", help=", ".join(PLAYS))
    arguments = parser.parse_args()
    if arguments.play:
        PLAYS[arguments.play]()
        return 0
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(f"skipped: {error}")
        return 2
    preload = arguments.build.resolve() / "lib" / "libcufence_preload.so"
    has_failed = False
    for play in arguments.plays or PLAYS:
        native, guarded = Run(play, None), Run(play, preload)
        problems = problems_of(play, native, guarded)
        has_failed |= bool(problems)
        print(f"{play}: {'; '.join(problems) or 'alike'}")
        for name, run in (("natively", native), ("guarded", guarded)):
            print(f"    {name} ends {run.end} with {run.status} after {run.seconds:.2f} s: {run.err.strip()}", flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
