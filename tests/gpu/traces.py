"""`cufence run --trace` and `cufence diff` on a real GPU: runs that are equal, and runs that differ in one thing.

    python3 tests/gpu/traces.py [CASE...]

Exit status: 0 if every case is as it should be, 1 if one is not, 2 without a GPU.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CUFENCE_BUILD") or ROOT / "build")
COMMAND = BUILD / "bin" / "cufence"
PROGRAM = BUILD / "bin" / "programs" / "traced.static"
STORY = Path(__file__).parent / "stories" / "traced_training.py"

TRAINING = [sys.executable, str(STORY)]
# Name, command, exit status of diff, what it says, its options.
CASES: list[tuple[str, list[str], int, str, list[str]]] = [
    ("plain", [str(PROGRAM), "plain"], 0, r"the runs are equal: 6 events in 2 streams", []),
    ("constant", [str(PROGRAM), "constant"], 1, r"event 4 of stream 1: another argument\n.*scale\(float const\*", []),
    ("kernel", [str(PROGRAM), "kernel"], 1, r"event 4 of stream 1: another kernel\n[^\n]*scale\([^\n]*\n[^\n]*scale_twice", []),
    ("copy", [str(PROGRAM), "copy"], 1, r"event 1 of stream 1: the program has copied or set other bytes", []),
    ("race", [str(PROGRAM), "race"], 1, r"equal inputs and other outputs\n +in +race\(float\*, int\)", []),
    ("atomic", [str(PROGRAM), "atomic"], 1, r"equal inputs and other outputs\n +in +sum\(float const\*, float\*, int\)", []),
    ("training", TRAINING, 0, r"the runs are equal: \d+ events", []),
    ("scatter", [*TRAINING, "scatter"], 1, r"equal inputs and other outputs\n +in +[^\n]*(index|scatter)[^\n]*traced_training\.py:\d+", []),
]


def traced(command: list[str], variant: int, path: Path) -> str:
    """Returns what went wrong, or nothing."""
    environment = {**os.environ, "VARIANT": str(variant)}
    done = subprocess.run(
        [COMMAND, "run", "--trace", path, "--", *command], env=environment, capture_output=True, text=True, timeout=300
    )
    if done.returncode or not path.exists():
        return f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return "" if '"missed":0}' in path.read_text()[-200:] else f"hashes are missing\n{done.stderr}"


def play(command: list[str], status: int, says: str, options: list[str]) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for variant in (0, 1):
            problem = traced(command, variant, folder / f"{variant}.jsonl")
            if problem:
                return problem
        diff = [COMMAND, "diff", *options, folder / "0.jsonl", folder / "1.jsonl"]
        done = subprocess.run(diff, capture_output=True, text=True, timeout=300)
    out = done.stdout + done.stderr
    return "" if done.returncode == status and re.search(says, out, re.S) else f"diff: status {done.returncode}\n{out}"


def main() -> int:
    if subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode if os.path.exists("/usr/bin/nvidia-smi") else 1:
        print("traces: no GPU here")
        return 2
    has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0
    failed = 0
    for name, command, status, says, options in CASES:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        if (command[0] == str(PROGRAM) and not PROGRAM.exists()) or (command[0] != str(PROGRAM) and not has_torch):
            print(f"skipped  {name}")
            continue
        start = time.monotonic()
        problem = play(command, status, says, options)
        print(f"{'FAILED  ' if problem else 'ok      '} {name}  {time.monotonic() - start:.1f} s", flush=True)
        failed += bool(problem)
        if problem:
            print(problem)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
