"""`cufence hunt --modes fresh` on a real GPU: programs that compute with floats that nobody wrote, and twins of all that do not.

    python3 tests/gpu/unwritten.py [--json FILE] [CASE...]

Exit status: 0 if every case is as it should be, 1 if one is not, 2 without a GPU.
"""

from __future__ import annotations

import re
import sys
from functools import partial

from played import COMMAND, PROGRAMS, play_all, run

PROGRAM = str(PROGRAMS / "unwritten.static")
# Name, kernel, and the first element of the result: that after the 9000 that were written, or the only one.
CASES = {
    "floats": ("accumulate", r"first to element 9000 of float32\[10000\]"),
    "halves": ("scale_halves", r"first to element 9000 of float16\[10000\]"),
    "total": ("sum", r"first to element 0 of float32\[1\]"),
}
SILENT = ("ints", "flags", "bytes", "doubles", "maximum", "pool", "copied")  # integers, and float64: docs/hunt.md


def hunt(arguments: list[str], status: int, *says: str) -> str:
    """Returns what went wrong, or nothing. Reports are folded at blanks."""
    got, out = run(COMMAND, "hunt", "--modes", "fresh", "--", PROGRAM, *arguments)
    text = re.sub(r"\s+", " ", out)
    missing = [what for what in says if not re.search(what, text)]
    return f"hunt: status {got}, missing: {missing}\n{out}" if got != status or missing else ""


def wrong(name: str) -> str:
    kernel, element = CASES[name]
    places = r"1000 elements that nobody wrote.*allocated at .*\bin (fresh|main)"
    return hunt([name], 86, "cufence hunt: 1 finding in 1 run", rf"first NaN: {kernel} writes", element, places)


def right(*arguments: str) -> str:
    return hunt([*arguments], 0, "cufence hunt: nothing found in 1 run")


if __name__ == "__main__":
    sys.exit(
        play_all(
            [
                *((name, [PROGRAM], partial(wrong, name)) for name in CASES),
                *((name, [PROGRAM], partial(right, name)) for name in SILENT),
                *((f"{name}_written", [PROGRAM], partial(right, name, "written")) for name in (*CASES, *SILENT)),
            ]
        )
    )
