"""`cufence hunt --deep` on a real GPU: compute-sanitizer finds bugs inside kernels, and nothing in the correct twin.

    python3 tests/gpu/deep.py [--json FILE] [CASE...]

Exit status: 0 if every case is as it should be, 1 if one is not, 2 without a GPU.
"""

from __future__ import annotations

import re
import shutil
import sys
from functools import partial

from played import COMMAND, PROGRAMS, STORIES, play_all, run

PROGRAM = str(PROGRAMS / "deep.static")
LOOKED = r"compute-sanitizer has looked at 2 launches\."
TRAINING = [sys.executable, str(STORIES / "deep_training.py"), "20"]
# Name, options of hunt, program, exit status, what it says.
CASES: list[tuple[str, list[str], list[str], int, list[str]]] = [
    ("race", [], [PROGRAM, "race"], 86, [LOOKED, r"\d+  racecheck at .*deep\.cu:\d+ in shift", r"Race reported between"]),
    (
        "fresh",
        [],
        [PROGRAM, "fresh"],
        86,
        [LOOKED, r"\d+  initcheck at .*deep\.cu:\d+ in add", r"Uninitialized __global__ memory read of size 4"],
    ),
    ("clean", [], [PROGRAM, "clean"], 0, [LOOKED, r"nothing found in 1 run"]),
    # A training step of PyTorch: each kernel once a shape, whatever the number of steps.
    ("training", ["--tools", "memcheck,synccheck"], TRAINING, 0, [r"looked at [2-9]\d launches\.", r"nothing found in 1 run"]),
]


def play(options: list[str], program: list[str], wanted: int, says: list[str]) -> str:
    """Returns what went wrong, or nothing."""
    if not shutil.which("compute-sanitizer"):
        return "there is no compute-sanitizer in PATH"
    status, out = run(COMMAND, "hunt", "--deep", *options, "--", *program)
    missing = [pattern for pattern in says if not re.search(pattern, out)]
    return "" if status == wanted and not missing else f"status {status}, not {wanted}; it does not say {missing}\n{out}"


if __name__ == "__main__":
    sys.exit(play_all((name, program, partial(play, options, program, *rest)) for name, options, program, *rest in CASES))
