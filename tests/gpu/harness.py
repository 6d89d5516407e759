"""Shared by the GPU tests: runs a process and checks its output.

A case is a program with one planted bug, or none, and the expected exit status, facts in the report, and output. run.py
runs Python stories, programs.py other programs; both pass their Results to results.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

REPORT_LINE = re.compile(r"^==\d+==")
REPORT_MORE = re.compile(r"^==\d+==(\s{2,}|\s*$| SUMMARY: )")  # a line of a report behind its first
REPORT_HEAD = re.compile(
    r"^==\d+== +cufence: (out-of-bounds|use-after-free|wild-address|null-pointer|host-pointer|misaligned"
    r"|illegal memory|exception|double free|invalid free|first NaN|first Inf|slack WRITE|WRITE to poisoned memory|stream race|leak)",
    re.MULTILINE,
)
FIRST_LINE = re.compile(r"^==\d+== cufence: a kernel has faulted")  # said before the dump is read
STATISTICS = re.compile(r"^cufence: (\d+) allocations?, ", re.MULTILINE)  # printed at exit with say=verbose


@dataclass
class Case:
    """A run of a program and its expected results."""

    name: str
    story: str  # the source file that contains the marks, without .py
    arguments: list[str] = field(default_factory=list)
    status: int = 1
    # Regular expressions for the report; {FAULT} is the number of the line marked with FAULT.
    report: list[str] = field(default_factory=list)
    reports: int = 1  # how many there are, if there is one
    # Regular expressions for stdout and stderr outside the report.
    output: list[str] = field(default_factory=list)
    error: list[str] = field(default_factory=list)
    # Files that the run leaves in its folder -> regular expressions for their contents; {FAULT} as above.
    files: dict[str, list[str]] = field(default_factory=dict)
    faults_in: str = ""  # the file with the mark FAULT, if it is not the story
    raises: str | None = None  # the mark of the last line of the traceback
    options: dict[str, str] = field(default_factory=dict)  # options of cufence
    environment: dict[str, str] = field(default_factory=dict)  # further environment variables
    ways: tuple[str, ...] = ("enable", "run", "backend")  # see ways.py
    launcher: list[str] = field(default_factory=list)  # arguments between python and the story
    is_module: bool = False  # python -m story instead of python story.py
    is_as_native: bool = False  # stdout must equal that of a run without cufence
    is_alone: bool = False  # fills the GPU's memory, or measures how much is left
    allocations: int = 1  # minimum number of allocations through cufence in a run without a fault
    needs: tuple[str, ...] = ("torch", "triton")  # modules, "nvcc", "two GPUs"
    seconds: int = 180


@dataclass
class Run:
    """The outcome of one process."""

    status: int
    stdout: str
    stderr: str
    report_seconds: float | None  # from "launch" to the last line of the report
    is_timed_out: bool = False
    first_seconds: float | None = None  # from "launch" to the line that says that a kernel has faulted

    @property
    def report(self) -> str:
        return "".join(line for line in self.stderr.splitlines(keepends=True) if REPORT_LINE.match(line))


@dataclass
class Result:
    """The result of one run of a case; ok is None if it was skipped."""

    name: str
    ok: bool | None
    detail: str
    seconds: float | None = None
    run: Run | None = None
    way: str = ""


def _stop(process: subprocess.Popen[str]) -> None:
    """Ends a story and the processes that it started: it leads its own process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def execute(command: list[str], environment: dict[str, str], folder: Path, seconds: float) -> Run:
    """Runs a process and records when the lines of its report arrive."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    errors: list[str] = []
    times: dict[str, float] = {}

    def read_errors() -> None:
        assert process.stderr is not None
        is_report = False
        with process.stderr as stream:
            for line in stream:
                errors.append(line)
                is_report = bool(REPORT_HEAD.match(line) or (is_report and REPORT_MORE.match(line)))
                if FIRST_LINE.match(line):
                    times.setdefault("first", time.time())
                if is_report:
                    times["report"] = time.time()
                elif line.startswith("launch "):
                    times["launch"] = float(line.split()[1])

    output: list[str] = []

    def read_output() -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            output.append(stream.read())

    readers = [threading.Thread(target=read_errors), threading.Thread(target=read_output)]
    for reader in readers:
        reader.start()
    is_timed_out = False
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        is_timed_out = True
        _stop(process)
        process.wait()
    for reader in readers:
        reader.join(10)

    def until(event: str) -> float | None:
        return times[event] - times["launch"] if event in times and "launch" in times else None

    return Run(process.returncode, "".join(output), "".join(errors), until("report"), is_timed_out, until("first"))


def marked_line(source: str, mark: str) -> int:
    """Returns the number of the line that ends in `# mark` or contains `# mark:`; in C++, `// mark`."""
    pattern = re.compile(rf"(#|//) {re.escape(mark)}(:|$)")
    found = [number for number, line in enumerate(source.splitlines(), 1) if pattern.search(line.rstrip())]
    if len(found) != 1:
        raise ValueError(f"the mark {mark!r} stands on {len(found)} lines")
    return found[0]


def _read(folder: Path | None, name: str) -> str:
    path = (folder or Path()) / name
    return path.read_text(errors="replace") if path.is_file() else ""


def _missing(patterns: list[str], text: str, where: str, source: str, facts: list[str]) -> list[str]:
    """Returns the patterns that the text lacks, and adds what the others match to `facts`."""
    problems = []
    for expected in patterns:
        pattern = re.sub(r"\{([A-Z]+)\}", lambda mark: str(marked_line(source, mark.group(1))), expected)
        match = re.search(pattern, text)
        if match:
            facts.append(re.sub(r"\s+", " ", match.group(0)).strip())
        else:
            problems.append(f"{where} lacks /{pattern}/")
    return problems


def _problems_of_end(case: Case, run: Run) -> list[str]:
    if run.is_timed_out:
        return [f"did not end within {case.seconds} s"]
    return [] if run.status == case.status else [f"exit status {run.status}, expected {case.status}"]


def problems_of(case: Case, run: Run, source: str, folder: Path | None = None) -> tuple[list[str], list[str]]:
    """Returns what is wrong with a run, and the facts found.

    `source` is the story's text; `folder` is where the process ran, and only needed for `files` and `faults_in`.
    """
    facts: list[str] = []
    faulty = _read(folder, case.faults_in) if case.faults_in else source
    problems = _problems_of_end(case, run)
    problems += _missing(case.report, run.report, "the report", faulty, facts)
    heads = len(REPORT_HEAD.findall(run.stderr))
    if heads != (case.reports if case.report else 0):
        problems.append(f"{heads} reports, expected {case.reports if case.report else 0}")
    problems += _missing(case.output, run.stdout, "stdout", faulty, facts)
    problems += _missing(case.error, run.stderr, "stderr", faulty, [])
    for name, patterns in case.files.items():
        text = _read(folder, name)
        problems += _missing(patterns, text, name, faulty, facts) if text else [f"there is no {name}, or it is empty"]
    if "not reached" in run.stdout:
        problems.append("nothing was raised where the kernel was waited for")
    if case.raises:
        line = marked_line(source, case.raises)
        if not re.search(rf'File "[^"]*{case.story}\.py", line {line}, in <module>', run.stderr):
            problems.append(f"the traceback does not name line {line}")
    return problems, facts


def problems_of_statistics(case: Case, run: Run) -> list[str]:
    """A run without a fault proves nothing unless it went through cufence: with say=verbose, its end says how much did."""
    allocations = sum(int(number) for number in STATISTICS.findall(run.stderr))
    if allocations < case.allocations:
        return [f"{allocations} allocations went through cufence, expected at least {case.allocations}"]
    return []
