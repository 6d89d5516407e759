"""Figures of cost in README.md and docs/ have one source, tests/gpu/results/cost.json: figures.py check | write, in the top folder.

A page has its table between the comments `<!-- cost: begin -->` and `<!-- cost: end -->`. Any other
sentence of a page that says how many times as long a training step takes is refused: it would be true for one version only.
"""

import json
import pathlib
import re
import sys

RESULTS = pathlib.Path("tests/gpu/results/cost.json")
PAGES = [pathlib.Path("README.md"), *sorted(pathlib.Path("docs").rglob("*.md"))]
ROWS = {  # a row of the table for each back end of the results
    "cufence": "`cufence.enable()`",
    "run": "`cufence run`, `backend:cufence`",
    "cufence_strict": "`uaf=strict`: every freed buffer is unmapped",
    "sanitizer": "compute-sanitizer memcheck, without PyTorch's caching",
}
WORKLOADS = {"training": "training step", "inference": "inference step", "small": "100 small operations"}
TABLE = re.compile(r"(<!-- cost: begin -->\n).*?(<!-- cost: end -->)", re.S)
ELSEWHERE = re.compile(r"(?:training|inference)\s+steps?\b[^.|]{0,60}?\d(?:\.\d+)?\s+times(?:\s+as\s+long|\s+slower)")


def table() -> str:
    results = json.loads(RESULTS.read_text())
    facts, found = results["facts"], {(row["backend"], row["workload"]): row for row in results["rows"]}
    lines = ["| native PyTorch = 1 | " + " | ".join(WORKLOADS.values()) + " |", "|---|" + "---|" * len(WORKLOADS)]
    for name, title in ROWS.items():
        ratios = [found[name, workload]["fastest"] for workload in WORKLOADS]
        lines.append(f"| {title} | " + " | ".join(f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}" for ratio in ratios) + " |")
    pairs = sorted({len(row["ratios"]) for row in results["rows"]})
    lines += ["", f"{facts['gpu']}, driver {facts['driver']}, PyTorch {facts['torch']}, {facts['date']}: the fastest of {pairs[0]} to {pairs[-1]} blocks of "
              "steps each, in turn with native ones."]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> None:
    fresh_table, pages = table(), 0
    for page in PAGES:
        text = page.read_text()
        fresh, tables = TABLE.subn(lambda m: m[1] + fresh_table + m[2], text)
        pages += tables
        if stray := ELSEWHERE.search(TABLE.sub("", text)):
            sys.exit(f"{page}: a figure of cost that is not from {RESULTS}: {' '.join(stray[0].split())}")
        if sys.argv[1] == "write":
            page.write_text(fresh)
        elif fresh != text:
            sys.exit(f"{page} has other figures than {RESULTS}: python3 docs/figures.py write")
    if not pages:
        sys.exit("no page has the comments around a table of cost")


if __name__ == "__main__":
    main()
