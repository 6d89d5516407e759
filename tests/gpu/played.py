"""What guarded.py and saved.py share: cases that run the command on a real GPU, one after the other.

Usage of such a script: SCRIPT [--json FILE] [CASE...]; FILE gets the results, for --also of run.py. Exit status: 0 if every case
is as it should be, 1 if one is not, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from harness import Result
from results import write_json

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CUFENCE_BUILD") or ROOT / "build")
COMMAND = BUILD / "bin" / "cufence"
PROGRAMS = BUILD / "bin" / "programs"
STORIES = Path(__file__).parent / "stories"


def run(*command: str | Path, variant: int = 0) -> tuple[int, str]:
    """Returns the exit status and all that was printed. The program finds `variant` in its environment."""
    environment = {**os.environ, "VARIANT": str(variant)}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, timeout=300, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def play_all(cases: Iterable[tuple[str, list[str], Callable[[], str]]]) -> int:
    """Plays the cases that the command line names, or all: name, program, and what returns what went wrong, or nothing."""
    script = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="CASE")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if not succeeds("nvidia-smi", "-L"):
        print(f"{script}: no GPU here")
        return 2
    has_torch = succeeds(sys.executable, "-c", "import torch")
    results = []
    for name, program, play in cases:
        if given.names and name not in given.names:
            continue
        if not Path(program[0]).exists() or (program[0] == sys.executable and not has_torch):
            results.append(Result(f"{script}_{name}", None, f"no {program[0]}"))
            print(f"skipped  {name}: no {program[0]}", flush=True)
            continue
        start = time.monotonic()
        problem = play()
        print(f"{'FAILED  ' if problem else 'ok      '} {name}  {time.monotonic() - start:.1f} s", flush=True)
        results.append(Result(f"{script}_{name}", not problem, problem or "as it should be"))
        if problem:
            print(problem)
    if given.json:
        write_json(results, given.json)
    return int(any(result.ok is False for result in results))
