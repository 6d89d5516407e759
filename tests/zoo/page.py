"""Writes docs/detection.md from a result of `./dev matrix`: python3 tests/zoo/page.py [F] [--check]

Without F it is tests/gpu/results/matrix.json. --check: status 1 if the page is another one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from matrix import COLUMNS, CORPORA
from tools import ROOT, TOOLS
from zoo import BUGS

RESULTS, PAGE = ROOT / "tests" / "gpu" / "results" / "matrix.json", ROOT / "docs" / "detection.md"
TITLES = {tool: TOOLS[tool].title for tool in COLUMNS if tool in TOOLS} | {
    "run": "cufence run", "strict": "cufence run, uaf=strict", "own": "cufence, the option for it", "own_tool": "initcheck or racecheck"}  # fmt: skip
WHERE = ("kernel", "line", "thread", "buffer")
INTRO = """# What it finds

Planted bugs, a row each, and each tool that people use: a command away, `./dev matrix` ([tests/zoo](../tests/zoo/zoo.py) lists the bugs; a page of
results is written by `python3 tests/zoo/page.py`). A twin is the same program where it is right: its buffers have room for what it does, or it
waits. What a tool says about a twin is a false alarm. Natively, an error counts as found, although it names nothing.

"""
LEGEND = """
full: found, with kernel, source line, thread and buffer. found: without some of these. elsewhere: another kernel or line is named. crashed: an error
that says nothing about the bug. slow: no end within 30 s, a Python program 60 s, nor alone. -: silent. An empty cell was not run: for want of time, or
because a tool for PyTorch's allocator has no use there, or the bug needs no option.

"""
Data = dict[str, Any]


def table(head: list[str], body: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *body))


def word(cell: Data | None) -> str:
    if not cell:
        return ""
    if cell["word"] == "found":
        return "full" if set(WHERE) <= set(cell["named"]) else "found"
    return "-" if cell["word"] == "silent" else cell["word"]


def scores(data: Data) -> str:
    body = []
    for tool in COLUMNS:
        bugs = [row[tool] for row in data["bugs"].values() if tool in row]
        twins = [row[tool] for row in data["twins"].values() if tool in row]
        if bugs:
            words = [word(cell) for cell in bugs]
            alarms = sum(cell["word"] in ("found", "elsewhere") for cell in twins)
            body.append([TITLES[tool], f"{sum(one in ('full', 'found') for one in words)} of {len(bugs)}", str(words.count("full")),
                         f"{alarms} of {len(twins)}" if twins else ""])  # fmt: skip
    return table(["", "found", "of these in full", "false alarms"], body)


def kind_of(name: str) -> tuple[str, str, str]:
    bug = next((one for one in BUGS if one.name == name), None)
    if bug:
        return bug.kind, bug.framework, bug.reason
    corpus, _, program = name.partition(": ")
    row = next((one for one in json.loads(CORPORA.read_text())[corpus]["programs"] if one["name"] == program), {"kind": ""})
    return row["kind"], corpus, f"`cufence {' '.join(row['own'])}`" if "own" in row else ""


def page(data: Data) -> str:
    facts = data["facts"]
    tools = [tool for tool in COLUMNS if any(tool in row for row in data["bugs"].values())]
    body, misses = [], []
    for name, row in sorted(data["bugs"].items(), key=lambda one: (kind_of(one[0])[1], kind_of(one[0])[0], one[0])):
        kind, framework, reason = kind_of(name)
        body.append([name, kind, framework, *(word(row.get(tool)) for tool in tools)])
        if word(row.get("run")) not in ("full", "found"):
            misses.append([name, word(row.get("run")), word(row.get("own")), reason or "not understood yet"])
    alarms = [[name, TITLES[tool], cell["word"]] for name, row in sorted(data["twins"].items()) for tool, cell in row.items() if cell["word"] != "silent"]
    return "".join((
        INTRO, f"{facts['gpu']}, driver {facts['driver']}, PyTorch {facts.get('torch')}, cufence {facts['cufence']}, {facts['date']}.\n",
        f"{facts['note']}.\n\n" if facts.get("note") else "\n", scores(data),
        LEGEND, "## Bugs\n\n", table(["bug", "kind", "of", *(TITLES[tool] for tool in tools)], body),
        "\n## What default options miss\n\n", table(["bug", "default options", "the option for it", "why"], misses),
        "\n## Twins that are not silent\n\n", table(["twin", "tool", "says"], alarms) if alarms else "None.\n",
    ))  # fmt: skip


def main() -> int:
    files = [Path(word) for word in sys.argv[1:] if word != "--check"]
    text = page(json.loads((files[0] if files else RESULTS).read_text()))
    if "--check" in sys.argv:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
