"""`cufence hunt --deep` on a real GPU: compute-sanitizer finds bugs inside kernels, and nothing in the correct twin.

    python3 tests/gpu/deep.py [--json FILE] [CASE...]

Exit status: 0 if every case is as it should be, 1 if one is not, 2 without a GPU.
"""

from __future__ import annotations

import re
import shutil
import sys
from functools import partial

from played import COMMAND, PROGRAMS, play_all, run

PROGRAM = str(PROGRAMS / "deep.static")
LOOKED = r"compute-sanitizer has looked at 2 launches\."
CASES: list[tuple[str, int, list[str]]] = [
    ("race", 86, [LOOKED, r"\d+  racecheck at .*deep\.cu:\d+ in shift", r"Race reported between"]),
    ("fresh", 86, [LOOKED, r"\d+  initcheck at .*deep\.cu:\d+ in add", r"Uninitialized __global__ memory read of size 4"]),
    ("clean", 0, [LOOKED, r"nothing found in 1 run"]),
]


def play(kind: str, wanted: int, says: list[str]) -> str:
    """Returns what went wrong, or nothing."""
    if not shutil.which("compute-sanitizer"):
        return "there is no compute-sanitizer in PATH"
    status, out = run(COMMAND, "hunt", "--deep", "--", PROGRAM, kind)
    missing = [pattern for pattern in says if not re.search(pattern, out)]
    return "" if status == wanted and not missing else f"status {status}, not {wanted}; it does not say {missing}\n{out}"


if __name__ == "__main__":
    sys.exit(play_all((kind, [PROGRAM, kind], partial(play, kind, *rest)) for kind, *rest in CASES))
