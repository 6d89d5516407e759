"""What the scripts share that play more than a row of cases.py: how one begins and ends, and the driver through ctypes.

    SCRIPT [--json FILE] [--build FOLDER] [CASE...]

FILE gets the results, for --also of run.py. Exit status: 0 if every case is as it should be; 1 if one is not; 2 without a GPU.
A script that needs libcuda alone plays its programs as processes of its own: itself with `--play NAME`.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from harness import BUILD, Result
from results import write_json

# Whether it is well, None if it was skipped; a line; lines besides. Or a whole result.
Judged = tuple[bool | None, str, list[str]] | Result
MULTIPROCESSORS, THREADS_OF_EACH = 16, 39  # CUdevice_attribute


class Cuda:
    """The driver; a call that fails ends the process."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.device = ctypes.c_int()

    def __call__(self, name: str, *arguments: object) -> None:
        error = getattr(self.library, name)(*arguments)
        if error:
            sys.exit(f"{name}: error {error}")

    def start(self) -> Cuda:
        """Makes the primary context of device 0 current."""
        context = ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", ctypes.byref(self.device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self("cuCtxSetCurrent", context)
        return self

    def attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        return value.value

    def kernel(self, image: bytes, name: bytes) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), image)
        self("cuModuleGetFunction", ctypes.byref(function), module, name)
        return function

    def launch(self, function: ctypes.c_void_p, blocks: int, threads: int, stream: ctypes.c_void_p | None, *values: ctypes._SimpleCData) -> None:
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, None)


def run(*command: str | Path) -> tuple[int, str]:
    """Returns the exit status and all that was printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@functools.cache
def has_torch() -> bool:
    return succeeds(sys.executable, "-c", "import torch")


def judged(problem: str) -> Judged:
    """Of what went wrong, or nothing."""
    return not problem, problem.partition("\n")[0] or "as it should be", problem.splitlines()[1:]


def judge_by(cases: dict[str, tuple[str | Callable[[], str], Callable[[], str]]]) -> Callable[[str, argparse.Namespace], Judged]:
    """Of cases with the program that each needs, and what plays it and returns what went wrong."""

    def judge(name: str, _: argparse.Namespace) -> Judged:
        program, play = cases[name]
        program = program() if callable(program) else program
        if program == sys.executable and not has_torch():
            return None, "no PyTorch", []
        return judged(play()) if Path(program).exists() else (None, f"no {program}", [])

    return judge


def run_script(
    doc: str | None,
    prefix: str,
    names: Iterable[str],
    judge: Callable[[str, argparse.Namespace], Judged],
    play: Callable[[str], None] | None = None,
    numbers: dict[str, int] | None = None,
    needs_device: bool = True,
    more: Callable[[argparse.ArgumentParser], object] | None = None,
) -> int:
    """Judges the names that are asked for, or all; of A.B, A selects each B. The results are called `prefix`_NAME. `numbers`: more options,
    with their defaults. Returns the exit status."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=BUILD)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--play", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", type=lambda word: word.removeprefix(f"{prefix}_"), help=", ".join(names))
    for name, default in (numbers or {}).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    if more:
        more(parser)
    options = parser.parse_args()
    if options.play and play:
        play(options.play)
        return 0
    stems = {name: name.partition(".")[0] for name in names}
    if unknown := set(options.names) - {*stems, *stems.values()}:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    try:
        if needs_device and ctypes.CDLL("libcuda.so.1").cuInit(0):
            raise OSError("cuInit failed")
    except OSError as error:
        print(f"skipped: {error}")
        return 2
    results = []
    for name, stem in stems.items():
        if options.names and not {name, stem} & set(options.names):
            continue
        began, lines, found = time.monotonic(), [], judge(name, options)
        if not isinstance(found, Result):
            is_ok, detail, lines = found
            found = Result(f"{prefix}_{name}" if prefix else name.replace(".", "_"), is_ok, detail)
        results.append(found)
        word = {True: "ok     ", False: "FAILED ", None: "skipped"}[found.ok]
        print(f"{word} {name}: {found.detail}  {time.monotonic() - began:.1f} s", *(f"    {line}" for line in lines), sep="\n", flush=True)
    if options.json:
        write_json(results, options.json)
    return int(any(result.ok is False for result in results))
