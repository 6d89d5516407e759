"""Runs the GPU stories, each in a process of its own, and checks the exit status and the facts in the report.

    python3 tests/gpu/run.py                          every story
    python3 tests/gpu/run.py triton_overrun oom       these
    python3 tests/gpu/run.py --results RESULTS.md --also c_tests.json

A story is a plain script in stories/ with one planted bug, or none. It marks the line that faults with `# FAULT` and the line
of Python that raises with `# RAISES`, and prints "launch <time>" right before the launch that faults. Without a GPU, PyTorch
or Triton, stories are skipped and the reason is printed; the exit status is 1 if one has failed, else 0.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STORIES = HERE / "stories"
REPORT_LINE = re.compile(r"^==\d+==")
REPORT_MORE = re.compile(r"^==\d+==(\s{2,}|\s*$)")  # a line of a report behind its first
REPORT_HEAD = re.compile(
    r"^==\d+== +cufence: (out-of-bounds|use-after-free|wild-address|null-pointer|host-pointer|misaligned"
    r"|illegal memory|exception)",
    re.MULTILINE,
)
CELL_LETTERS = 600
REPORT_SECONDS = 1.0  # DESIGN.md, section 6: from the fault to the finished report, PyTorch loaded


@dataclass
class Case:
    """One run of a story and what must be true of it."""

    name: str
    story: str
    arguments: list[str] = field(default_factory=list)
    status: int = 1
    # What the report must say, as regular expressions; {FAULT} is the number of the line so marked.
    report: list[str] = field(default_factory=list)
    # What stdout and stderr must hold outside the report.
    output: list[str] = field(default_factory=list)
    error: list[str] = field(default_factory=list)
    raises: str | None = None  # the mark of the line that the traceback must end in
    same_as: list[str] | None = None  # arguments of a second run whose stdout must be equal
    needs_triton: bool = True
    seconds: int = 180


ILLEGAL = [r"illegal memory access"]


def _overrun(name: str, kernel: str, block: str, size: int, **other: object) -> Case:
    story = str(other.pop("story", name))
    raises = str(other.pop("raises", "RAISES"))
    extra = other.pop("report", [])
    assert isinstance(extra, list)
    facts = [
        r"cufence: out-of-bounds READ of \d+ bytes",
        r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
        rf"buffer +#\d+, {size} bytes\b",
        rf"kernel +{kernel}\b.*exact",
        rf"{story}\.py:{{FAULT}}\b",
        rf"block \({block}\) thread \(\d+,0,0\)",
        *extra,
    ]
    return Case(name, story, report=facts, error=ILLEGAL, raises=raises, **other)  # type: ignore[arg-type]


def _exited_warp(name: str, kernel: str, access: str) -> Case:
    """The dump may hold an error PC only: the line is exact then, the buffers are candidates."""
    facts = [
        rf"cufence: (out-of-bounds {access} of 4 bytes|illegal memory access)",
        rf"kernel +{kernel}\b.*exact",
        rf"{name}\.py:{{FAULT}}\b",
        r"\b0 bytes past the end of buffer #\d+|buffer +#\d+, .*candidate",
        r"buffer +#\d+, 4000 bytes\b",
    ]
    return Case(name, name, report=facts, error=ILLEGAL, raises="RAISES")


CASES = [
    _overrun("triton_overrun", "k_oob", "7,0,0", 4000, report=[r"thread \(104,0,0\)"]),
    _exited_warp("triton_store_only", "k_store", "WRITE"),
    _exited_warp("triton_atomic", "k_atomic", "ATOMIC"),
    _overrun("graph_overrun", "k_oob", "7,0,0", 4000, output=["captured"]),
    _overrun("big_buffer", "k_big", "7168,0,0", 3670016),
    _overrun("fp16_odd", "k_half", "7,0,0", 2002),
    Case(
        "underrun",
        "underrun",
        report=[
            r"cufence: out-of-bounds READ of \d+ bytes",
            r"\b4 bytes before the start of buffer #\d+",
            r"buffer +#\d+, 4096 bytes\b",
            r"kernel +k_before\b.*exact",
            r"underrun\.py:{FAULT}\b",
            r"block \(0,0,0\) thread \(0,0,0\)",
        ],
        error=ILLEGAL,
        raises="RAISES",
    ),
    Case(
        "use_after_free",
        "use_after_free",
        report=[
            r"cufence: use-after-free READ of \d+ bytes",
            r"into buffer #\d+, which has been freed",
            r"buffer +#\d+, 4000 bytes\b",
            r"freed +\S+ \S+ ago by thread \d+",
            r"kernel +k_late\b.*exact",
            r"use_after_free\.py:{FAULT}\b",
        ],
        error=ILLEGAL,
        raises="RAISES",
    ),
    _overrun("other_stream_busy", "k_oob", "7,0,0", 4000, output=["busy when the fault came: True"]),
    _overrun("labels", "k_oob", "7,0,0", 4000, report=[r'label "batch 17"'], output=["described", "reported"]),
    *(
        _overrun(f"sync_{how}", "k_oob", "7,0,0", 4000, story="sync_points", arguments=[how], raises=f"RAISES {how}")
        for how in ("item", "cpu", "stream", "event")
    ),
    Case(
        "never_synchronises",
        "never_synchronises",
        status=86,
        report=[r"cufence: out-of-bounds READ", r"kernel +k_oob\b", r"never_synchronises\.py:{FAULT}\b"],
    ),
    Case("clean_training", "clean_training", ["cufence"], 0, same_as=["native"], output=[r"sha256 \w{64}"], needs_triton=False),
    Case(
        "clean_inference", "clean_inference", ["cufence"], 0, same_as=["native"], output=[r"sha256 \w{64}"], needs_triton=False
    ),
    Case("oom", "oom", [], 0, output=["filled up, not counting the error: True", "recovered"], needs_triton=False),
    Case("graph_clean", "graph_clean", [], 0, output=["100 replays are right", "released"], needs_triton=False),
    Case("streams_clean", "streams_clean", ["off"], 0, output=["300 sums are right"], needs_triton=False),
    Case("streams_clean_strict", "streams_clean", ["strict"], 0, output=["300 sums are right"], needs_triton=False),
    Case(
        "enable_after_cuda",
        "enable_after_cuda",
        error=[r"RuntimeError: cufence\.enable\(\) comes too late: .*before the first CUDA tensor"],
        raises="RAISES",
        needs_triton=False,
    ),
]


@dataclass
class Run:
    """What one process did."""

    status: int
    stdout: str
    stderr: str
    report_seconds: float | None  # from "launch" to the last line of the report
    is_timed_out: bool = False

    @property
    def report(self) -> str:
        return "".join(line for line in self.stderr.splitlines(keepends=True) if REPORT_LINE.match(line))


@dataclass
class Result:
    """What became of one case; ok is None for a skipped one."""

    name: str
    ok: bool | None
    detail: str
    seconds: float | None = None
    run: Run | None = None


def _stop(process: subprocess.Popen[str]) -> None:
    """Ends a story and what it has started: it leads its own process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def execute(command: list[str], environment: dict[str, str], folder: Path, seconds: int) -> Run:
    """Runs one process and notes when the lines of its report come."""
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
    taken = times["report"] - times["launch"] if len(times) == 2 else None
    return Run(process.returncode, "".join(output), "".join(errors), taken, is_timed_out)


def marked_line(source: str, mark: str) -> int:
    """The number of the line that ends in `# mark` or holds `# mark:`."""
    pattern = re.compile(rf"# {re.escape(mark)}(:|$)")
    found = [number for number, line in enumerate(source.splitlines(), 1) if pattern.search(line.rstrip())]
    if len(found) != 1:
        raise ValueError(f"the mark {mark!r} stands on {len(found)} lines")
    return found[0]


def problems_of(case: Case, run: Run, source: str) -> tuple[list[str], list[str]]:
    """What is wrong with a run, and the facts that were found."""
    problems: list[str] = []
    facts: list[str] = []
    if run.is_timed_out:
        problems.append(f"did not end within {case.seconds} s")
    elif run.status != case.status:
        problems.append(f"exit status {run.status}, expected {case.status}")
    report = run.report
    for expected in case.report:
        pattern = expected.replace("{FAULT}", str(marked_line(source, "FAULT"))) if "{FAULT}" in expected else expected
        match = re.search(pattern, report)
        if match:
            facts.append(re.sub(r"\s+", " ", match.group(0)).strip())
        else:
            problems.append(f"the report lacks /{pattern}/")
    heads = len(REPORT_HEAD.findall(run.stderr))
    if heads != (1 if case.report else 0):
        problems.append(f"{heads} reports, expected {1 if case.report else 0}")
    for pattern in case.output:
        if not re.search(pattern, run.stdout):
            problems.append(f"stdout lacks /{pattern}/")
    for pattern in case.error:
        if not re.search(pattern, run.stderr):
            problems.append(f"stderr lacks /{pattern}/")
    if "not reached" in run.stdout:
        problems.append("nothing was raised where the kernel was waited for")
    if case.raises:
        line = marked_line(source, case.raises)
        if not re.search(rf'File "[^"]*{case.story}\.py", line {line}, in <module>', run.stderr):
            problems.append(f"the traceback does not name line {line}")
    return problems, facts


def run_case(case: Case, folder: Path, environment: dict[str, str]) -> Result:
    """Runs a case, and the run that it is compared with."""
    script = folder / f"{case.story}.py"
    source = script.read_text()
    command = [sys.executable, "-u", script.name]
    # Triton's cache knows kernels by their source: another story's copy would bring that story's file name with it.
    environment = {**environment, "TRITON_CACHE_DIR": str(folder / f"triton-{case.name}")}
    run = execute([*command, *case.arguments], environment, folder, case.seconds)
    problems, facts = problems_of(case, run, source)
    if case.same_as is not None and not problems:
        other = execute([*command, *case.same_as], environment, folder, case.seconds)
        if other.status != 0:
            problems.append(f"the {' '.join(case.same_as)} run ended with status {other.status}: {other.stderr[-500:]}")
        elif other.stdout != run.stdout:
            problems.append(f"results differ from the {' '.join(case.same_as)} run: {run.stdout!r} and {other.stdout!r}")
        else:
            facts.append(f"bit-identical to the {' '.join(case.same_as)} run: {run.stdout.split()[-1][:16]}...")
    elif case.output:
        facts.extend(match.group(0) for match in (re.search(pattern, run.stdout) for pattern in case.output) if match)
    detail = "; ".join(problems) if problems else "; ".join(facts)
    return Result(case.name, not problems, detail, run.report_seconds, run)


PROBE = """
import json, sys
facts = {"python": sys.version.split()[0]}
try:
    import torch
    facts["torch"] = torch.__version__
    facts["cuda"] = torch.version.cuda
    facts["gpu"] = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
except Exception as error:
    facts["torch_error"] = f"{type(error).__name__}: {error}"
try:
    import triton
    facts["triton"] = triton.__version__
except Exception as error:
    facts["triton_error"] = f"{type(error).__name__}: {error}"
print("facts " + json.dumps(facts))
"""


def probe() -> dict[str, str | None]:
    """What this machine has, found out in a process of its own so that this one never starts CUDA."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("facts "):
            facts: dict[str, str | None] = json.loads(line[6:])
            break
    else:
        facts = {"torch_error": f"the probe ended with status {done.returncode}: {done.stderr.strip()[-300:]}"}
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        facts["driver"] = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        facts["driver"] = None
    return facts


def reason_to_skip(case: Case, facts: dict[str, str | None]) -> str | None:
    """Why a case cannot run here."""
    if "torch_error" in facts:
        return f"PyTorch cannot be imported ({facts['torch_error']})"
    if not facts.get("gpu"):
        return "PyTorch sees no GPU (torch.cuda.is_available() is False)"
    if case.needs_triton and "triton_error" in facts:
        return f"Triton cannot be imported ({facts['triton_error']})"
    return None


def story_environment(folder: Path) -> dict[str, str]:
    """What stories see: the package of this checkout, its library, and none of the user's settings of the allocators."""
    environment = dict(os.environ)
    for name in ("CUFENCE_OPTIONS", "CUFENCE_DRIVER", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                 "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_LAUNCH_BLOCKING"):  # fmt: skip
        environment.pop(name, None)
    package = str(ROOT / "allocator" / "torch")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
    environment.setdefault("CUFENCE_LIBRARY", str(ROOT / "build" / "lib" / "libcufence.so"))
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return environment


def also(path: Path) -> list[Result]:
    """Results of other tests: [{"name": ..., "ok": true | false | null, "detail": ...}]."""
    return [Result(str(row["name"]), row["ok"], str(row.get("detail", ""))) for row in json.loads(path.read_text())]


def cell(text: str) -> str:
    """The text as one cell of a table; what a failed C test printed is cut."""
    text = text if len(text) <= CELL_LETTERS else text[: CELL_LETTERS - 4] + " ..."
    return text.replace("|", "\\|").replace("\n", " ")


WORDS = {True: "pass", False: "FAIL", None: "skipped"}


def summary(results: list[Result]) -> str:
    count = {key: sum(1 for result in results if result.ok is key) for key in WORDS}
    return f"{count[True]} passed, {count[False]} failed, {count[None]} skipped"


def neutral(text: str, folder: Path) -> str:
    """A results file holds no paths of the machine it was made on."""
    return text.replace(str(folder) + "/", "").replace(str(ROOT) + "/", "").replace(str(Path.home()) + "/", "~/")


def markdown(results: list[Result], facts: dict[str, str | None], folder: Path) -> str:
    """The results file."""
    lines = [
        "# Results on a GPU",
        "",
        f"{summary(results)}. Made by tests/gpu/run.py.",
        "",
        "| | |",
        "|---|---|",
        f"| date | {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d} |",
    ]
    names = {
        "gpu": "GPU",
        "driver": "driver",
        "cuda": "CUDA of PyTorch",
        "torch": "PyTorch",
        "triton": "Triton",
        "python": "Python",
    }
    lines += [f"| {title} | {facts.get(key) or 'not known'} |" for key, title in names.items()]
    lines += ["", "| case | result | fault to report, s | facts |", "|---|---|---|---|"]
    for result in results:
        taken = f"{result.seconds:.2f}" if result.seconds is not None else ""
        lines.append(f"| {result.name} | {WORDS[result.ok]} | {taken} | {cell(neutral(result.detail, folder))} |")
    shown = [result for result in results if result.run and result.run.report and result.ok]
    for result in [r for r in shown if r.name in ("triton_overrun", "use_after_free", "triton_store_only")] or shown[:1]:
        assert result.run is not None
        lines += [
            "",
            f"The report of {result.name}, as printed:",
            "",
            "```",
            neutral(result.run.report, folder).rstrip(),
            "```",
        ]
    return "\n".join(lines) + "\n"


def report_time(results: list[Result]) -> list[Result]:
    """One more case: every report was finished in time."""
    taken = [(result.seconds, result.name) for result in results if result.seconds is not None]
    if not taken:
        return []
    worst, name = max(taken)
    detail = f"slowest of {len(taken)}: {worst:.2f} s ({name}), allowed {REPORT_SECONDS:.1f} s"
    return [Result("report_in_time", worst <= REPORT_SECONDS, detail)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="cases to run; all without any")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--results", type=Path, help="write a Markdown file of the results here")
    parser.add_argument("--also", type=Path, action="append", default=[], help="JSON results of other tests to merge in")
    parser.add_argument("--show", action="store_true", help="print what every story printed, not only the failed ones")
    options = parser.parse_args()
    if options.list:
        print("\n".join(case.name for case in CASES))
        return 0
    unknown = set(options.names) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; --list prints them")
    cases = [case for case in CASES if not options.names or case.name in options.names]
    results = [result for path in options.also for result in also(path)]

    facts = probe()
    # A neutral place: Triton records the path of a script, and reports show it.
    folder = Path(tempfile.gettempdir()) / "cufence-stories"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(STORIES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    environment = story_environment(folder)
    if facts.get("gpu") and not Path(environment["CUFENCE_LIBRARY"]).is_file():
        print(f"there is a GPU, but no {environment['CUFENCE_LIBRARY']}: build first ('./dev build')", file=sys.stderr)
        return 2

    reasons: set[str] = set()
    for case in cases:
        reason = reason_to_skip(case, facts)
        if reason:
            reasons.add(reason)
            results.append(Result(case.name, None, reason))
            continue
        result = run_case(case, folder, environment)
        results.append(result)
        taken = f"{result.seconds:5.2f} s" if result.seconds is not None else "       "
        print(f"{WORDS[result.ok]:4} {taken} {case.name:22} {result.detail}", flush=True)
        if result.run and (options.show or not result.ok):
            for name, text in (("stdout", result.run.stdout), ("stderr", result.run.stderr)):
                print("".join(f"    {name}: {line}\n" for line in text.splitlines()[-60:]), end="", flush=True)
    results += report_time(results)
    for reason in sorted(reasons):
        print(f"SKIPPED: {reason}")
    if options.results:
        options.results.write_text(markdown(results, facts, folder))
    print(summary(results))
    return 1 if any(result.ok is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
