"""`cufence run --trace` and `cufence diff` on a real GPU: runs that are equal, and runs that differ in one thing.

    python3 tests/gpu/traces.py [CASE...]

Exit status: 0 if every case is as it should be, 1 if one is not, 2 without a GPU.
"""

from __future__ import annotations

import re
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from played import COMMAND, PROGRAMS, STORIES, play_all, run

PROGRAM = PROGRAMS / "traced.static"
TRAINING = [sys.executable, str(STORIES / "traced_training.py")]
# Name, command, exit status of diff, what it says, options of the runs, and in front of the trace, which launches it is of.
CASES: list[tuple[Any, ...]] = [
    ("plain", [str(PROGRAM), "plain"], 0, r"the runs are equal: 6 events in 2 streams", []),
    ("constant", [str(PROGRAM), "constant"], 1, r"event 4 of stream 1: another argument\n.*scale\(float const\*", []),
    ("kernel", [str(PROGRAM), "kernel"], 1, r"event 4 of stream 1: another kernel\n[^\n]*scale\([^\n]*\n[^\n]*scale_twice", []),
    ("copy", [str(PROGRAM), "copy"], 1, r"event 1 of stream 1: the program has copied or set other bytes", []),
    ("race", [str(PROGRAM), "race"], 1, r"equal inputs and other outputs\n +in +race\(float\*, int\)", []),
    ("atomic", [str(PROGRAM), "atomic"], 1, r"equal inputs and other outputs\n +in +sum\(float const\*, float\*, int\)", []),
    ("chosen", [str(PROGRAM), "race"], 1, r", only scale\*\|race\n.*equal inputs and other outputs\n +in +race\(", [], "scale*|race="),
    ("every", [str(PROGRAM), "plain"], 0, r", one launch in 2\n.*the runs are equal: [1-6] events", ["--every", "2"]),
    ("training", TRAINING, 0, r"the runs are equal: \d+ events", []),
    ("scatter", [*TRAINING, "scatter"], 1, r"equal inputs and other outputs\n +in +[^\n]*(index|scatter)[^\n]*traced_training\.py:\d+", []),
]


def traced(command: list[str], variant: int, path: Path, options: list[str], launches: str) -> str:
    """Returns what went wrong, or nothing."""
    status, out = run(COMMAND, "run", "--trace", f"{launches}{path}", *options, "--", *command, variant=variant)
    if status or not path.exists():
        return f"status {status}\n{out}"
    return "" if '"missed":0}' in path.read_text()[-200:] else f"hashes are missing\n{out}"


def play(command: list[str], wanted: int, says: str, options: list[str], launches: str = "") -> str:
    with tempfile.TemporaryDirectory() as name:
        traces = [Path(name, f"{variant}.jsonl") for variant in (0, 1)]
        problem = "".join(traced(command, variant, path, options, launches) for variant, path in enumerate(traces))
        if problem:
            return problem
        status, out = run(COMMAND, "diff", *traces)
    return "" if status == wanted and re.search(says, out, re.S) else f"diff: status {status}\n{out}"


if __name__ == "__main__":
    sys.exit(play_all((name, command, partial(play, command, *rest)) for name, command, *rest in CASES))
