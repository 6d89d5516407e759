"""How often the driver loses a fault when several processes fault on one device at once, with core dumps armed.

    python3 bench/lost_faults.py [--seconds 60] [--jobs 12] [--modes one all load] [--under-cufence]
    python3 bench/lost_faults.py --healthy

Runs lost_faults.cu without cufence (or, with --under-cufence, under `cufence run`), so many at a time, again and again. A run that
has not ended after 12 s is one whose fault was lost. Without cufence it is asked for a dump then, through CUDA's user trigger, and
may be woken by that. --healthy asks programs that have no fault for dumps. Needs nvcc or --program, and a GPU: one that nobody
else works on, for the device stands still while a process hangs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
HANGS_SECONDS, WAKES_SECONDS = 12, 8
FLAGS = "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,skip_abort"


def armed(folder: Path) -> dict[str, str]:
    """The environment of a program whose dumps are armed without cufence, also on request."""
    return os.environ | {
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
        "CUDA_COREDUMP_FILE": str(folder / "core.%p"),
        "CUDA_COREDUMP_GENERATION_FLAGS": FLAGS,
        "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
        "CUDA_COREDUMP_PIPE": str(folder / "trigger.%p"),
    }


def ask_for_dump(pid: int, folder: Path) -> bool:
    try:
        pipe = os.open(folder / f"trigger.{pid}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False  # the driver takes the pipe away once it has made a dump
    with os.fdopen(pipe, "wb") as file:
        file.write(b"1")
    return True


def ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def run_once(command: list[str], environment: dict[str, str], folder: Path, can_ask: bool) -> str:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    if ends_within(process, HANGS_SECONDS):
        # 86 is cufence's, 3 that of a program that finds no GPU
        word = "ended" if process.returncode in (0, 86) else f"ended with status {process.returncode}"
    else:
        word = "hung"
        if can_ask and ask_for_dump(process.pid, folder) and ends_within(process, WAKES_SECONDS):
            word = "hung until it was asked for a dump"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for file in folder.glob(f"*.{process.pid}"):
        file.unlink(missing_ok=True)
    return word


def run_many(command: list[str], environment: dict[str, str], folder: Path, arguments: argparse.Namespace) -> Counter[str]:
    words: Counter[str] = Counter()
    end = time.monotonic() + arguments.seconds

    def work() -> None:
        while time.monotonic() < end:
            words.update([run_once(command, environment, folder, not arguments.under_cufence)])

    threads = [threading.Thread(target=work) for _ in range(arguments.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return words


def ask_the_healthy(program: Path, folder: Path) -> None:
    for mode in ("few", "full", "idle", "many"):
        process = subprocess.Popen([program, mode], env=armed(folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        time.sleep(2)
        is_asked = ask_for_dump(process.pid, folder)
        said = process.communicate()[0].decode().strip()
        print(f"{mode:5} {'asked' if is_asked else 'could not be asked'}; status {process.returncode}; {said}", flush=True)
        for file in folder.glob(f"*.{process.pid}"):
            file.unlink(missing_ok=True)


def compiled(folder: Path) -> Path:
    program = folder / "lost_faults"
    try:
        subprocess.run(["nvcc", "-arch=native", "-o", program, HERE / "lost_faults.cu"], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"bench/lost_faults.py: nvcc cannot make the program ({error}); name one that is made with --program")
    return program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="for each mode")
    parser.add_argument("--jobs", type=int, default=12, help="how many at a time")
    parser.add_argument("--modes", nargs="+", default=["one"], choices=["one", "all", "load"])
    parser.add_argument("--under-cufence", action="store_true")
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--program", type=Path, help="lost_faults.cu, compiled")
    arguments = parser.parse_args()
    cufence = HERE.parent / "build" / "bin" / "cufence"
    if arguments.program and not arguments.program.is_file():
        parser.error(f"--program: {arguments.program} is not a file")
    if arguments.jobs < 1:
        parser.error(f"--jobs: {arguments.jobs} is not a number from 1")
    if arguments.under_cufence and not cufence.is_file():
        parser.error(f"--under-cufence: there is no {cufence}; './dev build' makes it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = arguments.program.resolve() if arguments.program else compiled(folder)
        if arguments.healthy:
            ask_the_healthy(program, folder)
            return
        for mode in arguments.modes:
            launcher = [str(cufence), "run", "--"] if arguments.under_cufence else []
            environment = dict(os.environ) if arguments.under_cufence else armed(folder)
            words = run_many([*launcher, str(program), mode], environment, folder, arguments)
            counts = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
            print(f"{mode}, {arguments.jobs} at a time: {words.total()} runs: {counts}", flush=True)


if __name__ == "__main__":
    main()
