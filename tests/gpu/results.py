"""The results of the GPU tests: merges and counts them, and writes the Markdown file."""

from __future__ import annotations

import datetime
import json
import re
import tempfile
from pathlib import Path

from harness import ROOT, Result, Run

CELL_LETTERS = 600
REPORT_SECONDS = 1.0  # from the fault to the finished report, PyTorch loaded
FIRST_SECONDS = 0.3  # from the fault to the line that says so
# The stories, and the way of each, whose reports the file shows.
SHOWN = {
    "triton_overrun": "run",
    "use_after_free": "run",
    "triton_store_only": "run",
    "compile_triton_op": "run",
    "torchrun": "run",
    "jax_overrun": "run",
    "cupy_overrun": "run",
    "aoti_activation": "run",
    "aoti_weight_alone": "api",
}
FOLDERS = re.compile(rf"{re.escape(tempfile.gettempdir())}/cufence-\w+/([^/\s]+/)?")  # see harness.prepare(); one folder per run


def also(path: Path) -> list[Result]:
    """Reads other tests' results: a list of {"name": ..., "ok": true | false | null}, and the other fields of write_json()."""
    results = []
    for row in json.loads(path.read_text()):
        run = Run(0, "", row["report"], None) if row.get("report") else None
        seconds, way = row.get("seconds"), str(row.get("way", ""))
        results.append(Result(str(row["name"]), row["ok"], str(row.get("detail", "")), seconds, run, way))
    return results


def write_json(results: list[Result], path: Path) -> None:
    """Writes results for also()."""
    rows = []
    for result in results:
        row = {"name": result.name, "way": result.way, "ok": result.ok, "detail": result.detail, "seconds": result.seconds}
        rows.append({**row, "report": result.run.report if result.run else ""})
    path.write_text(json.dumps(rows, indent=1) + "\n")


def cell(text: str) -> str:
    """Formats a text as a cell of a table; truncates the output of a failed C test."""
    text = text if len(text) <= CELL_LETTERS else text[: CELL_LETTERS - 4] + " ..."
    return text.replace("|", "\\|").replace("\n", " ")


WORDS = {True: "pass", False: "FAIL", None: "skipped"}


def summary(results: list[Result]) -> str:
    count = {key: sum(1 for result in results if result.ok is key) for key in WORDS}
    return f"{count[True]} passed, {count[False]} failed, {count[None]} skipped"


def line(result: Result) -> str:
    """Formats a line for the terminal."""
    taken = f"{result.seconds:5.2f} s" if result.seconds is not None else "       "
    return f"{WORDS[result.ok]:7} {taken} {result.name:22} {result.way:8} {result.detail}"


def show(result: Result, is_shown: bool) -> Result:
    """Prints a result, and what the run printed if it has failed."""
    print(line(result), flush=True)
    if result.run and (is_shown or not result.ok):
        for name, text in (("stdout", result.run.stdout), ("stderr", result.run.stderr)):
            print("".join(f"    {name}: {row}\n" for row in text.splitlines()[-60:]), end="", flush=True)
    return result


def neutral(text: str) -> str:
    """Removes paths of this machine from a text."""
    text = FOLDERS.sub("", text)
    return text.replace(str(ROOT) + "/", "").replace(str(Path.home()) + "/", "~/")


def _shown_reports(results: list[Result]) -> list[str]:
    lines = []
    for result in results:
        if result.ok and result.run and result.run.report and SHOWN.get(result.name) == result.way:
            title = f"The report of {result.name}, {result.way}, as printed:"
            lines += ["", title, "", "```", neutral(result.run.report).rstrip(), "```"]
    return lines


def markdown(results: list[Result], facts: dict[str, str | None]) -> str:
    """Formats the results file."""
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
        "jax": "JAX",
        "cupy": "CuPy",
        "python": "Python",
    }
    lines += [f"| {title} | {facts.get(key) or 'not known'} |" for key, title in names.items()]
    lines += [
        "",
        "The way is how cufence was put under the program: `enable` calls cufence.enable() first, `run` is `cufence run`,",
        "`backend` is PYTORCH_CUDA_ALLOC_CONF=backend:cufence with the wheel installed, `itself` is a program that calls",
        "cufence on its own, `wheel` one that asks for it by its arguments, and `api` uses the C API.",
        "",
        "| case | way | result | fault to report, s | facts |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        taken = f"{result.seconds:.2f}" if result.seconds is not None else ""
        detail = cell(neutral(result.detail))
        lines.append(f"| {result.name} | {result.way} | {WORDS[result.ok]} | {taken} | {detail} |")
    return "\n".join(lines + _shown_reports(results)) + "\n"


def _in_time(name: str, what: str, taken: list[tuple[float, str]], allowed: float) -> list[Result]:
    if not taken:
        return []
    worst, slowest = max(taken)
    detail = f"slowest of {len(taken)} {what}: {worst:.2f} s ({slowest}), allowed {allowed:.1f} s"
    return [Result(name, worst <= allowed, detail)]


def report_time(results: list[Result]) -> list[Result]:
    """Adds two cases: every report was begun and finished in time. Of the first lines, those of the Python stories are timed."""
    named = [(result, f"{result.name} {result.way}".strip()) for result in results]
    firsts = [(result.run.first_seconds, name) for result, name in named if result.run and result.run.first_seconds is not None]
    reports = [(result.seconds, name) for result, name in named if result.seconds is not None]
    return _in_time("first_line_in_time", "first lines", firsts, FIRST_SECONDS) + _in_time(
        "report_in_time", "reports", reports, REPORT_SECONDS
    )
