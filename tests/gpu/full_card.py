"""What fits natively fits under `cufence run`, in at most 1.1 of the time: a training run that takes nine tenths of the GPU, and caches that
grow until it is full.

Nothing else may use the GPU meanwhile. Usage and exit status are as in script.py.
"""

from __future__ import annotations

import json
import re
import sys
from functools import partial

from harness import COMMAND, STORIES
from script import judge_by, run, run_script

ROUNDS, TIME, FITS = 3, 1.1, 0.98


def measure(out: str) -> dict[str, float]:
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def compare(program: list[str]) -> str:
    """Returns what went wrong, or nothing: native and guarded runs in turn, and the fastest of each."""
    native, guarded, said = [], [], ""
    for _ in range(ROUNDS):
        native.append(measure(run(*program)[1]))
        status, said = run(COMMAND, "run", "--", *program)
        guarded.append(measure(said))
        if status or not native[-1] or not guarded[-1]:
            return f"status {status} under cufence\n{said}"
    ratio = min(one["seconds"] / one["fitted"] for one in guarded) / min(one["seconds"] / one["fitted"] for one in native)
    fitted = min(one["fitted"] for one in guarded) / max(one["fitted"] for one in native)
    print(f"{program[-1]}: peak {native[-1]['peak'] / 2**30:.1f} GiB natively and {guarded[-1]['peak'] / 2**30:.1f} GiB guarded; "
          f"{fitted:.3f} of what fits natively fits; {ratio:.3f} of the native time")  # fmt: skip
    print("".join(f"    {line}\n" for line in re.findall(r"==\d+== (cufence: .*)", said)), end="")
    return "" if ratio <= TIME and fitted >= FITS else said


if __name__ == "__main__":
    programs = {kind: [sys.executable, str(STORIES / "full_card.py"), kind] for kind in ("training", "growing")}
    cases = {kind: (sys.executable, partial(compare, program)) for kind, program in programs.items()}
    sys.exit(run_script(__doc__, "full_card", cases, judge_by(cases)))
