"""`cufence demo` on a real GPU: every bug that it plants, what its reports hold, and what it says to type next.

With CUFENCE_DRIVER=sim it runs on the simulated device. The command of an unpacked wheel is tried too: that of --wheel, or
one in build/wheel. Usage and exit status are as in script.py.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from harness import BUILD, COMMAND
from script import Judged, judged, run_script

# No option of the caller's, and no colours.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key == "CUFENCE_DRIVER" or not key.startswith("CUFENCE_")}
SOURCE = (Path(__file__).resolve().parents[2] / "allocator" / "cli" / "demo.cu").read_text().splitlines()
NAMELESS = re.compile(r"  \((?!_Z)\S+\+0x")


def planted(text: str) -> tuple[str, str]:
    """Returns `demo.cu:LINE` of the planted line with that text, and the line as a report shows it."""
    ((number, whole),) = [(number, whole) for number, whole in enumerate(SOURCE, 1) if text in whole and "// planted" in whole]
    return rf"[ /]?\bdemo\.cu:{number}\b", r"> +%d \| %s" % (number, re.escape(whole[:40]))


AGAIN = r"re-run"
VALUES = rf"\[1000\] +min .*{AGAIN}"
FACTS: dict[str, list[str]] = {
    "overrun": [
        *planted("offsets[row + 1]"),
        r"out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #\d+ \"row offsets\"",
        r"block \(7,0,0\) thread \(103,0,0\)",
        rf"written +4 bytes past the end: 3997 .*{AGAIN}",
        r"launched at .*\bplant_overrun\b",
        VALUES,
    ],
    "underrun": [
        *planted("samples[i - 1]"),
        r"out-of-bounds READ of 4 bytes, 4 bytes before the start of buffer #\d+ \"samples\"",
        r"block \(0,0,0\) thread \(0,0,0\)",
        r"launched at .*\bplant_underrun\b",
        VALUES,
    ],
    "use-after-free": [
        *planted("table[keys[i]]"),
        r"use-after-free READ of 4 bytes, \d+ bytes into buffer #\d+ \"look-up table\", which has been freed",
        r"freed at .*\bplant_use_after_free\b",
        VALUES,
    ],
    "graph": [
        *planted("table[keys[i]]"),
        r"use-after-free READ of 4 bytes, \d+ bytes into buffer #\d+ \"look-up table\", which has been freed",
        r"freed at .*\bplant_graph\b",
        "a graph was launched after the free",
    ],
    "slack-write": [
        r"slack WRITE: 1 byte changed, 0 bytes past the end of buffer #\d+ \"copy\"",
        r"given to +demo_slack_write<<<",
        r"launched at .*\bplant_slack_write\b",
    ],
    "stream-race": [
        r"stream race by cuMemFreeAsync: frees buffer #\d+ on stream \w+, which demo_stream_race on stream \w+ may still use",
        r"called at .*\bplant_stream_race\b",
    ],
    "first-nan": [
        r"first NaN: demo_first_nan writes 1 NaN to buffer #\d+, \"signs\", first to element 417 of float32\[1000\]",
        r"launched at .*\bplant_first_nan\b",
        r"1 zero, 0 NaN, 0 Inf",
    ],
}


def run(folder: str, *command: object) -> tuple[int, str]:
    """Returns the exit status and all that it printed, the report first."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr + done.stdout


def problems(said: str, facts: list[str]) -> str:
    missing = [fact for fact in facts if not re.search(fact, said)]
    if missing:
        return "missing: " + "; ".join(missing)
    if NAMELESS.search(said):
        return "a frame without a name"
    if len(re.findall(r"== SUMMARY: ", said)) != 1:
        return "not one summary"
    return "could not be launched again" if "could not be launched again" in said else ""


def plant(command: Path, bug: str, folder: str) -> tuple[str, str]:
    """Returns what is wrong, "" if nothing is, and what was printed."""
    for _ in range(5):
        status, said = run(folder, command, "demo", bug)
        if "was not reported" not in said:  # a pattern that has not arrived after 4 ms is not waited for
            break
    wanted = [*FACTS[bug], r"\nFound", r"\nWhat to type next:\n"]
    return problems(said, wanted) or (f"status {status}" if status else ""), said


def save_and_type_next(folder: str) -> tuple[str, str]:
    """Types what the demo says to type: replay, by the bundle's name and its folder's, and explain."""
    status, said = run(folder, COMMAND, "demo", "--keep", "faults")
    typed = re.findall(r"^  cufence ((?:replay|explain) \S+)$", said, re.M)
    if status or len(typed) != 2:
        return f"status {status}, {len(typed)} commands to type", said
    for words, wanted in ((typed[0], 86), ("replay faults", 86), (typed[1], 0)):
        status, again = run(folder, COMMAND, *shlex.split(words))
        said += again
        if status != wanted or not re.search(r"0 bytes past the end of buffer #\d+", again):
            return f"{words.split()[0]}: status {status}, not {wanted}, or another report", said
    return "", said


def options(folder: str) -> tuple[str, str]:
    """Options of `cufence run` that have something to say on each launch."""
    given = ["--values", "*", "--json", "found.json", "--say", "verbose"]
    status, said = run(folder, COMMAND, "demo", *given)
    facts = [r"values of launch #1: demo_overrun<<<", r"kernel +demo_overrun\(int const\*, int\*, float\*, int, int\)<<<"]
    missing = [fact for fact in facts if not re.search(fact, said)]
    files = [name for name, has in (("found.json", '"headline"'),) if has not in (Path(folder) / name).read_text()]
    return "; ".join([*missing, *files, *([f"status {status}"] if status else [])]), said


def by_name(folder: str) -> tuple[str, str]:
    """By its name through PATH, and by a link with another one."""
    (Path(folder) / "other").symlink_to(COMMAND)
    for words in (f"PATH={BUILD / 'bin'}:$PATH; cufence", "./other"):
        status, said = run(folder, "sh", "-c", f"{words} demo")
        wrong = problems(said, FACTS["overrun"]) or (f"status {status}" if status else "")
        if wrong:
            return f"{words}: {wrong}", said
    return "", said


def of_wheel(wheel: Path, folder: str) -> tuple[str, str]:
    """The command of a wheel is stripped: names of functions remain, and the lines of the kernels."""
    zipfile.ZipFile(wheel).extractall(folder)
    command = Path(folder) / "cufence" / "bin" / "cufence"
    command.chmod(0o755)
    return plant(command, "overrun", folder)


CASES: dict[str, Callable[[str], tuple[str, str]]] = {
    **{bug: functools.partial(plant, COMMAND, bug) for bug in FACTS},
    "save": save_and_type_next, "options": options, "by_name": by_name,
}  # fmt: skip


def judge(name: str, given: argparse.Namespace) -> Judged:
    wheel = given.wheel or next(iter(sorted((BUILD / "wheel").glob("*.whl"))[-1:]), None)
    if name == "wheel" and not wheel:
        return None, "no build/wheel/*.whl", []
    with tempfile.TemporaryDirectory() as folder:
        wrong, said = of_wheel(wheel.resolve(), folder) if name == "wheel" else CASES[name](folder)
    is_ok, detail, _ = judged(wrong)
    return is_ok, detail, said.splitlines() if wrong or given.show else []


def more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--wheel", type=Path, help="a wheel of cufence, whose command is tried too")
    parser.add_argument("--show", action="store_true", help="print what every case printed, not only the failed ones")


if __name__ == "__main__":
    sys.exit(run_script(__doc__, "demo", [*CASES, "wheel"], judge, needs_device=False, more=more))
