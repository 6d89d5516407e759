"""Suites that are right as they are: the same outcome under `cufence run`, and no finding but the known ones.

    python3 tests/gpu/suites.py TARGET... [--with OPTIONS]... [--jobs 4] [--seconds N] [--limit 60] [--json F] [--reports F]

A TARGET is
    a folder of programs   TARGET/NAME/Makefile says after `run:` what is run in that folder, as in HeCBench's src; built before
    a folder of tests      each TARGET/**/test_*.py is run by pytest
    a script               it prints a line of JSON with a "name" for each thing that it did, and takes --part I/N

Each program, file and part runs natively, and then once with each of the OPTIONS ("": the defaults): all targets with the first
ones, then all with the next. What --seconds don't suffice for is left out, and the table says so. What is compared: the exit
status, and of programs the words in their output that say right or wrong, of tests the outcome of each, of scripts their lines.
What differs is run natively again, twice: if these differ from the first run, the suite is unsteady, and that doesn't count.

Exit status: 0 if nothing was found and nothing differs, 1 if something was or does, 2 if nothing could be compared.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness import Run, execute
from played import COMMAND, ROOT

# What is right to report, by its place: a glob of the suite's name -> one of the findings' names, and why.
KNOWN = {
    "*/histogram": ("overrun *", "stores one element past the end"),
    "*/bscan": ("*", "votes with a mask that lacks the voter"),
    "*/tqs": ("overrun *", "reads a task before it looks whether there is one"),
    "*/quantAQLM": ("overrun *", "has room for one row of 32, and stores each"),
}
# Tests whose kernel faults, rightly: all tests after it in its file would fail. They are left out.
FAULTY = {"test_digitize_all_nan_bins": "CuPy 14.2's searchsorted reads bins[n_bins] when all bins are NaN"}

WORDS = re.compile(r"pass(?:ed)?|fail(?:ed|ure)?|success(?:ful)?|(?:in)?correct|mismatch|wrong|(?:in)?valid|ok|errors?", re.I)
TEST = re.compile(r"^(\S+\.py::.*?) (PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR)\b", re.MULTILINE)


@dataclass
class Suite:
    """A program, a file of tests, or a part of a script: what runs as one process, natively and with each of the options."""

    name: str
    kind: str  # program, tests, script
    folder: Path
    command: list[str]
    native: Run | None = None
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)  # held while it runs natively


def run_line(makefile: str) -> list[str]:
    """Returns the first command after `run:` that starts a program of the folder, as words without the launcher. Or nothing."""
    variables = dict(re.findall(r"^(\w+)[ \t]*[:?]?=[ \t]*(.*?)[ \t]*$", makefile, re.MULTILINE)) | {"LAUNCHER": ""}
    rule = re.search(r"^run[ \t]*:.*\n((?:\t.*\n?)*)", makefile, re.MULTILINE)
    for line in rule.group(1).replace("\\\n", " ").splitlines() if rule else []:
        words = re.sub(r"\$[({](\w+)[)}]", lambda name: variables.get(name.group(1), ""), line).split()
        if words and words[0].startswith("./"):
            return words
    return []


def suites_of(target: Path, parts: int) -> list[Suite]:
    if target.is_file():
        parted = [f"{part}/{parts}" for part in range(parts)]
        script = [sys.executable, "-u", str(target), "--part"]
        return [Suite(f"{target.stem} {part}", "script", target.parent, [*script, part]) for part in parted]
    found = []
    for makefile in sorted(target.glob("*/Makefile")):
        words = run_line(makefile.read_text(errors="replace"))
        if words and os.access(makefile.parent / words[0], os.X_OK):
            name = makefile.parent.name.removesuffix("-cuda")
            found.append(Suite(f"{target.name}/{name}", "program", makefile.parent, words))
    if found:
        return found
    pytest = [sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider"]
    pytest += ["-k", " and ".join(f"not {name}" for name in FAULTY)]
    # The largest first: a file that begins last would end last.
    files = sorted(target.rglob("test_*.py"), key=lambda path: -path.stat().st_size)
    return [Suite(str(path.relative_to(target)), "tests", target, [*pytest, str(path.relative_to(target))]) for path in files]


def outcome(suite: Suite, run: Run) -> dict[str, str]:
    if suite.kind == "tests":
        return dict(TEST.findall(run.stdout))
    if suite.kind == "script":
        lines = [line for line in run.stdout.splitlines() if line.startswith("{") and line.endswith("}")]
        return {json.loads(line)["name"]: line for line in lines}
    said = re.sub(r"^(==\d+== )?cufence: .*|^==\d+==.*", "", run.stdout + run.stderr, flags=re.MULTILINE)
    return {word: str(count) for word, count in Counter(word.lower() for word in WORDS.findall(said)).items()}


def differences(suite: Suite, native: Run, other: Run) -> list[str]:
    """Returns what differs. Of a run that was ended at its limit, only what it had done counts."""
    first, second = outcome(suite, native), outcome(suite, other)
    is_cut = native.is_timed_out or other.is_timed_out
    names = first.keys() & second.keys() if is_cut else first.keys() | second.keys()
    changed = sorted(name for name in names if first.get(name) != second.get(name))
    found = [f"{name}: {first.get(name, 'missing')}, then {second.get(name, 'missing')}" for name in changed]
    if not is_cut and native.status != other.status:
        found.append(f"exit status {native.status}, then {other.status}")
    if other.is_timed_out and not native.is_timed_out and suite.kind == "program":
        found.append("did not end")
    return found


def judge_findings(suite: Suite, findings: list[dict[str, Any]]) -> dict[str, list[str]]:
    judged: dict[str, list[str]] = {"findings": [], "known": []}
    for finding in findings:
        name = finding["finding_name"]
        is_known = any(fnmatchcase(suite.name, place) and fnmatchcase(name, glob) for place, (glob, _) in KNOWN.items())
        judged["known" if is_known else "findings"].append(f"{name}: {finding['headline']}")
    return judged


class Suites:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.end = time.monotonic() + options.seconds
        self.place = options.reports.resolve()
        self.place.mkdir(parents=True, exist_ok=True)

    def run(self, suite: Suite, command: list[str], least: float = 0) -> Run | None:
        """Returns None if the time is over."""
        left = self.end - time.monotonic()
        if left < 5:
            return None
        path = os.pathsep.join(filter(None, [str(ROOT / "allocator" / "torch"), os.environ.get("PYTHONPATH")]))
        more = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
        return execute(command, os.environ | more, suite.folder, min(left, max(least, self.options.limit)))

    def natively(self, suite: Suite) -> Run | None:
        with suite.lock:
            if not suite.native:
                start = time.monotonic()
                suite.native = self.run(suite, suite.command)
                suite.seconds = time.monotonic() - start
            return suite.native

    def is_unsteady(self, suite: Suite, native: Run) -> bool:
        runs = (self.run(suite, suite.command, 2 * suite.seconds) for _ in range(2))
        return any(run and not run.is_timed_out and differences(suite, native, run) for run in runs)

    def play(self, suite: Suite, settings: str) -> dict[str, Any]:
        """Returns a row of the results."""
        row: dict[str, Any] = {"suite": suite.name, "kind": suite.kind, "options": settings, "state": "left out"}
        try:
            native = self.natively(suite)
            return self.guarded(suite, settings, native, row) if native else row
        except (OSError, ValueError) as error:  # what can't be started, or a line that isn't JSON
            return row | {"state": "FAILED", "why": str(error)}

    def guarded(self, suite: Suite, settings: str, native: Run, row: dict[str, Any]) -> dict[str, Any]:
        row |= {"native_status": native.status, "native_seconds": round(suite.seconds, 2)}
        if native.is_timed_out and suite.kind == "program":
            return row | {"state": "takes too long natively"}
        file = str(self.place / re.sub(r"[^\w.-]+", "_", f"{suite.name} {settings or 'defaults'}"))
        found = Path(file + ".jsonl")
        words = [str(COMMAND), "run", "--set", ",".join(filter(None, ["on_fault=error/0", settings])), "--json", str(found)]
        start = time.monotonic()
        run = self.run(suite, [*words, "--", *suite.command], 0 if native.is_timed_out else 3 * suite.seconds + 20)
        if not run or (run.is_timed_out and suite.kind == "program" and time.monotonic() > self.end - 1):
            return row
        seconds = round(time.monotonic() - start, 2)
        row |= {"state": "same", "status": run.status, "is_cut": run.is_timed_out, "seconds": seconds}
        lines = [json.loads(line) for line in found.read_text().splitlines()] if found.exists() else []
        row |= judge_findings(suite, [line for line in lines if "finding_name" in line])
        row["guarded"] = sum(line["guarded"]["allocations"] for line in lines if line.get("kind") == "guarded")
        first = outcome(suite, native)
        row |= {"compared": len(first.keys() & outcome(suite, run).keys()), "passed": list(first.values()).count("PASSED")}
        row["differs"] = differences(suite, native, run)
        if row["differs"] and not row["findings"] and self.is_unsteady(suite, native):
            row["unsteady"], row["differs"] = row["differs"], []
        if row["findings"]:
            row["state"] = "FOUND"
        elif row["differs"] and not row["known"]:
            row["state"] = "DIFFERS"
        elif not row["guarded"] and suite.kind != "tests" and not run.is_timed_out:
            row["state"] = "nothing guarded"
        if row["state"] in ("FOUND", "DIFFERS"):
            said = [native.stdout[-20000:], native.stderr[-5000:], f"under {words}", run.stdout[-20000:], run.stderr[-60000:]]
            Path(file + ".txt").write_text("\n----\n".join(said))
        elif not row["known"]:
            found.unlink(missing_ok=True)
        return row


def say_table(rows: list[dict[str, Any]], targets: dict[str, list[Suite]], every: list[str]) -> None:
    heads = ("suites", "same", "found", "differ", "unsteady", "known", "cut", "left", "compared", "guarded")
    print(f"{'target':24} {'options':20} " + " ".join(f"{head:>8}" for head in heads) + "  time")
    for target, suites in targets.items():
        names = {suite.name for suite in suites}
        for settings in every:
            its = [row for row in rows if row["suite"] in names and row["options"] == settings]
            states, done = Counter(row["state"] for row in its), [row for row in its if "seconds" in row]
            whole = [row for row in done if not row["is_cut"] and row["state"] == "same"]
            ratio = sum(row["seconds"] for row in whole) / (sum(row["native_seconds"] for row in whole) or 1)
            counts = (
                len(its), states["same"], states["FOUND"], states["DIFFERS"], sum("unsteady" in row for row in done),
                sum(bool(row["known"]) for row in done), sum(row["is_cut"] for row in done), len(its) - len(done),
                sum(row["compared"] for row in done), sum(row["guarded"] for row in done),
            )  # fmt: skip
            numbers = " ".join(f"{count:8}" for count in counts)
            print(f"{target[-24:]:24} {settings or 'defaults':20} {numbers}  {ratio:.2f} of native")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+", type=lambda word: Path(word).resolve(), metavar="TARGET")
    parser.add_argument("--with", dest="every", action="append", metavar="OPTIONS", help="such as streams=on,uaf=strict")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time, and parts of a script")
    parser.add_argument("--seconds", type=float, default=3600, help="for everything")
    parser.add_argument("--limit", type=float, default=60, help="for one run, in seconds")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--reports", type=Path, help="folder for the reports of what is found")
    options = parser.parse_args()
    options.reports = options.reports or Path(tempfile.mkdtemp(prefix="suites-"))
    every = options.every or [""]
    targets = {path.name: suites_of(path, options.jobs) for path in options.targets}
    player = Suites(options)
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        suites = [suite for its in targets.values() for suite in its]
        jobs = [pool.submit(player.play, suite, settings) for settings in every for suite in suites]
        for job in concurrent.futures.as_completed(jobs):
            row = job.result()
            rows.append(row)
            if options.json:  # what is done stays if this is ended
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
            if row["state"] not in ("same", "left out"):
                what = [row.get("why", ""), *row.get("findings", [])[:3], *row.get("differs", [])[:5]]
                print(f"{row['state']:8} {row['suite']} [{row['options']}]", *filter(None, what), sep="\n    ", flush=True)
    say_table(rows, targets, every)
    states = Counter(row["state"] for row in rows)
    return 1 if states["FOUND"] or states["DIFFERS"] or states["FAILED"] else 0 if states["same"] else 2


if __name__ == "__main__":
    sys.exit(main())
