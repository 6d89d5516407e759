"""`cufence run --save-values` on a real GPU, and `cufence replay` of launches that did not fault: their outputs are equal.

Usage and exit status are as in script.py.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import tempfile
from functools import partial
from pathlib import Path

from harness import COMMAND, PROGRAMS, STORIES
from script import judge_by, run, run_script

STORY = [sys.executable, str(STORIES / "saved_softmax.py")]
EQUAL = r"the launch succeeded, outputs equal \(%s buffers?,"
DIFFERS = r"but 1 of 2 buffers differ from what it wrote when it was saved: buffer #\d+$"
# Name, program, launches, and replays: arguments, or K=VALUE of the kernel's, exit status, what they say.
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
            (["2=100002"], 3, DIFFERS),
            (["3=4.0"], 3, DIFFERS),
            # The one float behind the end is mapped: 400,012 bytes end 4 before a multiple of 16.
            (["2=100004"], 86, r"slack WRITE: [1-4] bytes? changed, \d bytes? past the end of buffer #"),
            (["2=100005"], 86, r"4 bytes past the end of buffer #"),
            (["--times", "5"], 0, r"outputs equal in 5 of 5 runs that ended well"),
        ],
    ),
    # An order of additions that is never the same: equal or not, the launch runs, and status and sentence agree.
    ("sum", [str(PROGRAMS / "saved.static"), "sum"], "sum", [(["--times", "10"], -1, r"outputs equal in \d+ of 10 runs")]),
    ("softmax", STORY, "*softmax*|*SoftMax*", [([], 0, EQUAL % r"\d+")]),
    ("triton", STORY, "k_double", [([], 0, EQUAL % 2)]),
    ("gemm", STORY, "*gemm*|*cutlass*|*nvjet*|*xmma*", [([], 0, EQUAL % r"\d+")]),
]


def change(launch: Path, given: str, change: str) -> None:
    """Writes launch.json with "K=VALUE" for the kernel's argument K, of 4 bytes."""
    known = json.loads(given)
    number, value = change.split("=")
    offset = known["arguments"][int(number)]["offset"]
    for one in known["launches"]:
        words = bytearray.fromhex(one["arguments"])
        words[offset : offset + 4] = struct.pack("<f", float(value)) if "." in value else struct.pack("<i", int(value))
        one["arguments"] = words.hex()
    launch.write_text(json.dumps(known))


def play(program: list[str], launches: str, replays: list[tuple[list[str], int, str]]) -> str:
    """Returns what went wrong, or nothing."""
    with tempfile.TemporaryDirectory() as name:
        status, out = run(COMMAND, "run", "--save-values", f"{launches}={name}/s", "--", *program)
        bundles = sorted(path.parent for path in Path(name, "s").glob("*/launch.json"))
        if status not in (0, 86) or not bundles:
            return f"status {status}, {len(bundles)} bundles\n{out}"
        for arguments, wanted, says in replays:
            is_change = bool(arguments) and "=" in arguments[0]
            launch = bundles[0] / "launch.json"
            given = launch.read_text()
            if is_change:
                change(launch, given, arguments[0])
            got, out = run(COMMAND, "replay", *([] if is_change else arguments), bundles[0])
            launch.write_text(given)
            is_right = got == wanted or (wanted < 0 and got in (0, 3))
            if not is_right or not re.search(says, out, re.M):
                return f"replay {' '.join(arguments)}: status {got}, not {wanted}, or it does not say {says}\n{out}"
    return ""


if __name__ == "__main__":
    cases = {name: (program[0], partial(play, program, *rest)) for name, program, *rest in CASES}
    sys.exit(run_script(__doc__, "saved", cases, judge_by(cases)))
