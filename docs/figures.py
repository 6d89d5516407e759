"""Figures of cost in README.md and docs/ have one source, tests/gpu/results/bench.json, which `./dev bench --json` writes.

    python3 docs/figures.py check | write     in the top folder; with matplotlib, `write` draws the picture, too

A page has its table between the comments `<!-- NAME: begin -->` and `<!-- NAME: end -->`; NAME is of TABLES. Any other
sentence of a page that says how many times as long a training step takes is refused: it would be true for one version only.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from collections.abc import Iterable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
from rounds import is_noise, short, summary  # noqa: E402
from store import digest, time_of  # noqa: E402
from tools import BASELINE, TOOLS  # noqa: E402

RESULTS = pathlib.Path("tests/gpu/results/bench.json")
PICTURES = pathlib.Path("docs/screens/bench")
CALLS = (BASELINE, "memcheck", "run", "strict", "api")  # whose single calls are shown
DRAWN = re.compile(r"allocate\.(2|4|16|32)|launch\.4|live\.(1000|100000)")  # the picture of single calls has them, the table does not
PAGES = [pathlib.Path("README.md"), *sorted(pathlib.Path("docs").rglob("*.md"))]
SHORT = {  # a row of the README's table
    "enable": "`cufence.enable()`",
    "run": "`cufence run`, `backend:cufence`",
    "strict": "`uaf=strict`: every freed buffer is unmapped",
    "blocking": "no caching, `CUDA_LAUNCH_BLOCKING=1`",
    "memcheck_uncached": "compute-sanitizer memcheck, without PyTorch's caching",
}
COLUMNS = {"training": "training step", "inference": "inference step", "small": "100 small operations"}
KINDS = {"device": "of the device", "reserved": "PyTorch's reserved memory", "host": "of the host"}
TABLE = re.compile(r"(<!-- (cost|all costs|single calls|peaks): begin -->\n).*?(<!-- \2: end -->)", re.S)
ELSEWHERE = re.compile(r"(?:training|inference)\s+steps?\b[^.|]{0,60}?\d(?:\.\d+)?\s+times(?:\s+as\s+long|\s+slower)")
Data = dict[str, Any]


def cell(one: dict[str, float]) -> str:
    quartiles = f"{short(one['lower'])}-{short(one['upper'])}"
    return f"{short(one['ratio'])} ({quartiles}{', noise' * is_noise(one)})"


def rows(head: list[str], body: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *body))


def found(data: Data, workload: str, tool: str) -> dict[str, float] | None:
    one = summary(data["workloads"].get(workload, {"rounds": []})["rounds"], tool, BASELINE)
    return one if one and one["ratio"] == one["ratio"] else None


def rounds_of(data: Data, workloads: Iterable[str], tools: Iterable[str]) -> str:
    """How many rounds these tools have: 15, or 3 to 5."""
    counts = {one["rounds"] for workload in workloads for tool in tools if (one := found(data, workload, tool))}
    return " to ".join(map(str, sorted({min(counts), max(counts)}))) if counts else ""


def source(data: Data) -> str:
    facts = data["facts"]
    return f"\n{facts['gpu']}, driver {facts['driver']}, PyTorch {facts['torch']}, {facts['date']}: "


def cost(data: Data) -> str:
    body = [[title, *(cell(one) if (one := found(data, workload, tool)) else "not measured" for workload in COLUMNS)]
            for tool, title in SHORT.items()]  # fmt: skip
    ours, others = rounds_of(data, COLUMNS, list(SHORT)[:2]), rounds_of(data, COLUMNS, list(SHORT)[2:])
    counts = f"{ours} rounds" if others in (ours, "") else f"{ours} rounds in the first two rows, {others} in the others"
    return rows(["native PyTorch = 1", *COLUMNS.values()], body) + source(data) + (
        f"median over {counts}; each compares the fastest block with the fastest native block.\n")


def all_costs(data: Data) -> str:
    workloads = [name for name, row in data["workloads"].items() if row["group"] == "torch" and row["rounds"]]
    tools = [tool for tool in TOOLS if tool != BASELINE and any(found(data, name, tool) for name in workloads)]

    others = [tool for tool in tools if tool not in ("enable", "run")]

    def said(name: str, tool: str) -> str:
        if one := found(data, name, tool):
            return cell(one)
        return "not possible" if tool in data["workloads"][name]["failed"] else "-"

    head = ["native PyTorch = 1", *(data["workloads"][name]["title"] for name in workloads)]
    counts = f"{rounds_of(data, workloads, ('enable', 'run'))} rounds (cufence's defaults) or {rounds_of(data, workloads, others)} (the others)"
    return rows(head, [[TOOLS[tool].title, *(said(name, tool) for name in workloads)] for tool in tools]) + source(data) + (
        f"medians of the ratios of {counts}, and quartiles; noise: these lie on both sides of 1, and far apart. \"-\": not measured.\n")


def single_calls(data: Data) -> str:
    names = [name for name, row in data["workloads"].items() if row["group"] in ("micro", "fault") and row["rounds"] and not DRAWN.fullmatch(name)]

    def seconds(name: str, tool: str) -> str:
        one = summary(data["workloads"][name]["rounds"], tool, BASELINE)
        return time_of(one["seconds"]) if one else "-"

    tools = [tool for tool in CALLS if any(seconds(name, tool) != "-" for name in names)]
    if not tools:
        return "Not in this run of the benchmarks.\n"
    head = ["the fastest block", *(TOOLS[tool].title for tool in tools)]
    return rows(head, [[data["workloads"][name]["title"], *(seconds(name, tool) for tool in tools)] for name in names]) + source(data) + (
        "for each allocation, launch or fault.\n")  # fmt: skip


def peaks(data: Data) -> str:
    body, kinds = [], [kind for kind in KINDS if any(kind in one for by_tool in data["memory"].values() for one in by_tool.values())]
    for model, by_tool in data["memory"].items():
        native = by_tool.get(BASELINE, {})

        def gib(tool: str, one: dict[str, int], kind: str, native: dict[str, int] = native) -> str:
            if kind not in one:
                return "-"
            ratio = f", {short(one[kind] / native[kind])}" if tool != BASELINE and kind in native else ""
            return f"{one[kind] / 2**30:.2f} GiB{ratio}"

        body += [[model, TOOLS[tool].title, *(gib(tool, one, kind) for kind in kinds)] for tool, one in by_tool.items()]
    return rows(["training", "", *(KINDS[kind] for kind in kinds)], body) + source(data) + "at most in use, and native = 1.\n"


TABLES = {"cost": cost, "all costs": all_costs, "single calls": single_calls, "peaks": peaks}


def draw(data: Data) -> None:
    try:
        from plots import draw_all
    except ImportError as error:
        print(f"no picture: {error}", file=sys.stderr)
        return
    for file in draw_all(data, PICTURES):
        if file.suffix != ".svg":
            file.unlink()


def main() -> None:
    data, pages = json.loads(RESULTS.read_text()), 0
    if sys.argv[1] == "write":
        draw(data)
    for page in PAGES:
        text = page.read_text()
        fresh, tables = TABLE.subn(lambda m: m[1] + TABLES[m[2]](data) + m[3], text)
        pages += tables
        if stray := ELSEWHERE.search(TABLE.sub("", text)):
            sys.exit(f"{page}: a figure of cost that is not from {RESULTS}: {' '.join(stray[0].split())}")
        if sys.argv[1] == "write":
            page.write_text(fresh)
        elif fresh != text:
            sys.exit(f"{page} has other figures than {RESULTS}: python3 docs/figures.py write")
    if not pages:
        sys.exit("no page has the comments around a table of cost")
    for picture in sorted(PICTURES.glob("*.svg")):
        if digest(data) not in picture.read_text():
            sys.exit(f"{picture} has other figures than {RESULTS}: python3 docs/figures.py write, with matplotlib")


if __name__ == "__main__":
    main()
