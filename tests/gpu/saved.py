"""`cufence run --save-values` on a real GPU, and `cufence replay` of launches that did not fault: their outputs are equal.

    python3 tests/gpu/saved.py [CASE...]

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
PROGRAMS = BUILD / "bin" / "programs"
STORY = [sys.executable, str(Path(__file__).parent / "stories" / "saved_softmax.py")]

EQUAL = r"the launch ran well, outputs equal \(%s buffers"
# Name, program, launches, and replays: arguments, exit status, what they say.
Case = tuple[str, list[str], str, list[tuple[list[str], int, str]]]
CASES: list[Case] = [
    *(
        (f"{kind}.{runtime}", [str(PROGRAMS / f"saved.{runtime}"), kind], "*", [([], 0, EQUAL % buffers)])
        for kind, buffers in (("scale", 2), ("table", 3), ("hosted", 2), ("offset", 2), ("cluster", 1))
        for runtime in ("static", "shared")
    ),
    (
        "changed",
        [str(PROGRAMS / "saved.static"), "scale"],
        "scale",
        [
            (["--set-arg", "2=100002"], 3, r"1 of 100003 elements \(float32\) differ, the first at index 100002: 0, saved was"),
            (["--set-arg", "3=4.0f"], 3, r"elements \(float32\) differ, the first at index 1: 2, saved was 1; the largest"),
            (["--set-arg", "2=100004"], 86, r"0 bytes past the end of buffer #"),
            (["--times", "5"], 0, r"outputs equal in 5 of 5 runs that ended well"),
            (["--no-guards"], 0, EQUAL % 2),
            (["--under", "env"], 0, EQUAL % 2),
        ],
    ),
    # An order of additions that is never the same: equal or not, the launch runs, and status and sentence agree.
    ("sum", [str(PROGRAMS / "saved.static"), "sum"], "sum", [(["--times", "10"], -1, r"outputs equal in \d+ of 10 runs")]),
    ("softmax", STORY, "*softmax*|*SoftMax*", [([], 0, EQUAL % r"\d+")]),
    ("triton", STORY, "k_double", [([], 0, EQUAL % 2)]),
    ("gemm", STORY, "*gemm*|*cutlass*|*nvjet*|*xmma*", [([], 0, EQUAL % r"\d+")]),
]


def run(command: list[str], limit: int = 300) -> tuple[int, str]:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def play(program: list[str], launches: str, replays: list[tuple[list[str], int, str]]) -> str:
    """Returns what went wrong, or nothing."""
    with tempfile.TemporaryDirectory() as name:
        status, out = run([str(COMMAND), "run", "--save-values", f"{launches}={name}/s", "--", *program])
        bundles = sorted(path.parent for path in Path(name, "s").glob("*/scene.json"))
        if status or not bundles:
            return f"status {status}, {len(bundles)} bundles\n{out}"
        for arguments, wanted, says in replays:
            got, out = run([str(COMMAND), "replay", *arguments, str(bundles[0])])
            is_right = got == wanted or (wanted < 0 and got in (0, 3))
            if not is_right or not re.search(says, out):
                return f"replay {' '.join(arguments)}: status {got}, not {wanted}, or it does not say {says}\n{out}"
    return ""


def main() -> int:
    if subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode if os.path.exists("/usr/bin/nvidia-smi") else 1:
        print("saved: no GPU here")
        return 2
    has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0
    failed = 0
    for name, program, launches, replays in CASES:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        if not Path(program[0]).exists() or (program is STORY and not has_torch):
            print(f"skipped  {name}")
            continue
        start = time.monotonic()
        problem = play(program, launches, replays)
        print(f"{'FAILED  ' if problem else 'ok      '} {name}  {time.monotonic() - start:.1f} s", flush=True)
        failed += bool(problem)
        if problem:
            print(problem)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
