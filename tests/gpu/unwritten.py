"""`cufence hunt --modes fresh` on a real GPU: the zoo's programs that compute with what nobody wrote, and twins of all that do not. What
an integer or a float64 reads so is not found (docs/hunt.md). Usage and exit status are as in script.py."""

from __future__ import annotations

import re
import sys
from functools import partial

from harness import COMMAND, PROGRAMS
from script import judge_by, run, run_script
from zoo import BUGS, Bug

PROGRAM = str(PROGRAMS / "unwritten.static")


def hunt(arguments: tuple[str, ...], status: int, *says: str) -> str:
    """Returns what went wrong, or nothing. Reports are folded at blanks."""
    got, out = run(COMMAND, "hunt", "--modes", "fresh", "--", PROGRAM, *arguments)
    text = re.sub(r"\s+", " ", out)
    missing = [what for what in says if not re.search(what, text)]
    return f"hunt: status {got}, missing: {missing}\n{out}" if got != status or missing else ""


def play(bug: Bug) -> str:
    if bug.status == 0:
        return right(bug.arguments)
    places = r"1000 uninitialised elements.*allocated at .*\bin (fresh|main)"
    return hunt(bug.arguments, 86, "cufence hunt: 1 finding in 1 run", rf"first NaN: {bug.kernel} writes", *bug.says, places)


def right(arguments: tuple[str, ...]) -> str:
    return hunt(arguments, 0, "cufence hunt: nothing found in 1 run")


if __name__ == "__main__":
    rows = [bug for bug in BUGS if bug.program == "unwritten.cu"]
    cases = {bug.arguments[0]: (PROGRAM, partial(play, bug)) for bug in rows}
    cases |= {f"{bug.arguments[0]}_written": (PROGRAM, partial(right, bug.twin)) for bug in rows}
    sys.exit(run_script(__doc__, "unwritten", cases, judge_by(cases)))
