"""`cufence hunt --uninit` and `cufence replay --uninit` on a real GPU: ten programs that read what nobody wrote, and ten twins that do not.

    python3 tests/gpu/unwritten.py [--json FILE] [CASE...]

Exit status: 0 if every case is as it should be, 1 if one is not, 2 without a GPU.
"""

from __future__ import annotations

import re
import sys
import tempfile
from functools import partial
from pathlib import Path

from played import COMMAND, PROGRAMS, play_all, run

PROGRAM = str(PROGRAMS / "unwritten.static")
# Name, kernel, and what the report says of the first element: that after the 9000 that were written, or the only one.
CASES = {
    "ints": ("add_ints", r"element 9000 of argument 1, int32\[10000\], becomes 1 where they are 0x00 and 1263225676 where"),
    "flags": ("choose", r"element 9000 of argument 1, int32\[10000\], becomes -7 where they are 0x00 and 7 where"),
    "bytes": ("add_bytes", r"element 9000 of argument 1, int32\[10000\], becomes 1 where they are 0x00 and 76 where"),
    "floats": ("accumulate", r"element 9000 of argument 1, float32\[10000\], becomes 2\.5 where"),
    "doubles": ("scale_doubles", r"element 9000 of argument 1, float64\[10000\], becomes 1 where"),
    "halves": ("scale_halves", r"element 9000 of argument 1, float16\[10000\], becomes 1 where"),
    "total": ("sum", r"element 0 of argument 1, float32\[1\], becomes 9000 where"),
    "maximum": ("largest", r"element 0 of argument 1, int32\[1\], becomes 3 where they are 0x00 and 1263225675 where"),
    "pool": ("add_ints", r"element 0 of argument 1, int32\[10000\], becomes 1 where"),
    "copied": ("add_ints", r"element 9000 of argument 1, int32\[10000\], becomes 1 where"),
}


def hunt(arguments: list[str], status: int, *says: str) -> str:
    """Returns what went wrong, or nothing. Reports are folded at blanks."""
    got, out = run(COMMAND, "hunt", "--uninit", "--", PROGRAM, *arguments)
    text = re.sub(r"\s+", " ", out)
    missing = [what for what in says if not re.search(what, text)]
    return f"hunt: status {got}, missing: {missing}\n{out}" if got != status or missing else ""


def wrong(name: str) -> str:
    kernel, element = CASES[name]
    places = r"launched at .*unwritten\.(cu|static).*allocated at .*\bin (fresh|main|flags|pool)"
    return hunt([name], 86, "cufence hunt: 1 finding in 4 runs", rf"uninitialised read in {kernel}\b", element, places)


def right(name: str) -> str:
    return hunt([name, "written"], 0, "cufence hunt: nothing found in 2 runs")


def replayed() -> str:
    with tempfile.TemporaryDirectory() as folder:
        status, out = run(COMMAND, "run", "--fill", "0x4b", "--save_values", f"add_ints={folder}/saved", "--", PROGRAM, "ints")
        bundles = sorted(Path(folder, "saved").glob("*-add_ints"))
        if status or not bundles:
            return f"run: status {status}, {len(bundles)} bundles\n{out}"
        status, out = run(COMMAND, "replay", "--uninit", bundles[0])
        text = re.sub(r"\s*\n==\d+==\s*", " ", out)
        named = "uninitialised read by add_ints of buffer #2"  # g++ evaluates the last argument first
        is_right = status == 86 and named in text and re.search(CASES["ints"][1], text)
        return "" if is_right else f"replay: status {status}\n{out}"


if __name__ == "__main__":
    sys.exit(
        play_all(
            [
                *((name, [PROGRAM], partial(wrong, name)) for name in CASES),
                *((f"{name}_written", [PROGRAM], partial(right, name)) for name in CASES),
                ("replayed", [PROGRAM], replayed),
            ]
        )
    )
