"""The results of the GPU tests: merging, counting, and the Markdown file."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

from harness import Result

ROOT = Path(__file__).resolve().parents[2]
CELL_LETTERS = 600
REPORT_SECONDS = 1.0  # DESIGN.md, section 6: from the fault to the finished report, PyTorch loaded
SHOWN = ("triton_overrun", "use_after_free", "triton_store_only")  # whose reports the file shows


def also(path: Path) -> list[Result]:
    """Results of other tests: [{"name": ..., "ok": true | false | null, "detail": ..., "way": ..., "seconds": ...}]."""
    return [
        Result(str(row["name"]), row["ok"], str(row.get("detail", "")), row.get("seconds"), way=str(row.get("way", "")))
        for row in json.loads(path.read_text())
    ]


def write_json(results: list[Result], path: Path) -> None:
    """What also() reads."""
    rows = [
        {"name": result.name, "way": result.way, "ok": result.ok, "detail": result.detail, "seconds": result.seconds}
        for result in results
    ]
    path.write_text(json.dumps(rows, indent=1) + "\n")


def cell(text: str) -> str:
    """The text as one cell of a table; what a failed C test printed is cut."""
    text = text if len(text) <= CELL_LETTERS else text[: CELL_LETTERS - 4] + " ..."
    return text.replace("|", "\\|").replace("\n", " ")


WORDS = {True: "pass", False: "FAIL", None: "skipped"}


def summary(results: list[Result]) -> str:
    count = {key: sum(1 for result in results if result.ok is key) for key in WORDS}
    return f"{count[True]} passed, {count[False]} failed, {count[None]} skipped"


def line(result: Result) -> str:
    """One line for the terminal."""
    taken = f"{result.seconds:5.2f} s" if result.seconds is not None else "       "
    return f"{WORDS[result.ok]:7} {taken} {result.name:22} {result.way:8} {result.detail}"


def neutral(text: str, folder: Path) -> str:
    """A results file holds no paths of the machine it was made on. Each run has a folder of its own in `folder`."""
    text = re.sub(rf"{re.escape(str(folder))}/([^/\s]+/)?", "", text)
    return text.replace(str(ROOT) + "/", "").replace(str(Path.home()) + "/", "~/")


def _shown_reports(results: list[Result], folder: Path) -> list[str]:
    lines = []
    shown = [result for result in results if result.run and result.run.report and result.ok]
    for result in [r for r in shown if r.name in SHOWN and r.way in ("run", "")] or shown[:1]:
        assert result.run is not None
        title = f"{result.name}, {result.way}" if result.way else result.name
        lines += ["", f"The report of {title}, as printed:", "", "```", neutral(result.run.report, folder).rstrip(), "```"]
    return lines


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
        "jax": "JAX",
        "cupy": "CuPy",
        "python": "Python",
    }
    lines += [f"| {title} | {facts.get(key) or 'not known'} |" for key, title in names.items()]
    lines += [
        "",
        "The way is how cufence was put under the program: `enable` calls cufence.enable() first, `run` is `cufence run`,",
        "`backend` is PYTORCH_CUDA_ALLOC_CONF=backend:cufence with the wheel installed, `itself` is a program that calls",
        "cufence on its own.",
        "",
        "| case | way | result | fault to report, s | facts |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        taken = f"{result.seconds:.2f}" if result.seconds is not None else ""
        detail = cell(neutral(result.detail, folder))
        lines.append(f"| {result.name} | {result.way} | {WORDS[result.ok]} | {taken} | {detail} |")
    return "\n".join(lines + _shown_reports(results, folder)) + "\n"


def report_time(results: list[Result]) -> list[Result]:
    """One more case: every report was finished in time."""
    taken = [(result.seconds, f"{result.name} {result.way}".strip()) for result in results if result.seconds is not None]
    if not taken:
        return []
    worst, name = max(taken)
    detail = f"slowest of {len(taken)}: {worst:.2f} s ({name}), allowed {REPORT_SECONDS:.1f} s"
    return [Result("report_in_time", worst <= REPORT_SECONDS, detail)]
