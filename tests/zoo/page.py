"""Writes docs/detection.md and docs/detection.csv from tests/gpu/results/matrix.json: python3 tests/zoo/page.py [F|--add F]

F: from this result of `./dev matrix` instead. --add F: puts its cells into the committed result first; other cells stay, with their machine.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from judge import Facts, judge
from matrix import COLUMNS, CORPORA, NO_BUG, OURS, RESULTS, as_text, corpus_facts, merged
from tools import ROOT, TOOLS
from zoo import BUGS

PAGE, ROWS = ROOT / "docs" / "detection.md", ROOT / "docs" / "detection.csv"
TITLES = {tool: TOOLS[tool].title for tool in COLUMNS if tool in TOOLS} | {
    "run": "cufence run", "strict": "cufence run, uaf=strict", "own": "cufence, the option for it", "own_tool": "initcheck or racecheck"}  # fmt: skip
WHERE = ("kernel", "line", "thread", "buffer")
INTRO = """# What it finds

`./dev matrix` runs planted bugs under several tools. Each has a twin: the same program without the bug. A report about that is a false alarm.
[zoo.py](../tests/zoo/zoo.py) lists the bugs, [detection.csv](detection.csv) every cell.

One rule judges all tools ([judge.py](../tests/zoo/judge.py)). A bug is found if the report has a fitting kind and names kernel, line, buffer or
call. It is found in full if kernel, source line, thread and buffer are right, where the bug has them. A CUDA error counts as a report if the program
prints it with the line of the launch.

"""
LEGEND = """
cells on: how many, bugs and twins, each machine ran. kernel to call: how often each is right. elsewhere: something was reported, but not
the bug. crashed: the program failed, the tool said nothing. slow: no end within 30 s (Python 60 s).

In detection.csv, `-` is silent, an empty cell was not run, a letter names a machine other than a.

"""
NAMES = ("kernel", "line", "thread", "buffer", "distance", "stacks", "call")
Data = dict[str, Any]


def table(head: list[str], body: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *body))


def row_of(name: str) -> tuple[Facts, str, str]:
    """Facts, framework, why the default options miss it."""
    bug = next((one for one in BUGS if one.name == name), None)
    if bug:
        return bug.facts(), bug.framework, bug.reason
    corpus, _, program = name.partition(": ")
    row = next((one for one in json.loads(CORPORA.read_text())[corpus]["programs"] if one["name"] == program), {"kind": "", "name": ""})
    return corpus_facts(row), corpus, row.get("reason") or (f"`cufence {' '.join(row['own'])}`" if "own" in row else "")


def word(facts: Facts, cell: Data | None) -> str:
    if not cell:
        return ""
    said, named = judge(facts, cell)
    return {"found": "full" if facts.asked & set(WHERE) <= named else "found", "silent": "-"}.get(said, said)


def letter(cell: Data) -> str:
    return chr(ord("a") + cell.get("machine", 0))


def shown(facts: Facts, cell: Data | None) -> str:
    return f"{word(facts, cell)} {letter(cell).replace('a', '')}".strip() if cell else ""


def scores(data: Data) -> str:
    body = []
    for tool in COLUMNS:
        bugs = [(row_of(name)[0], row[tool]) for name, row in data["bugs"].items() if tool in row]
        twins = [judge(NO_BUG, row[tool])[0] for row in data["twins"].values() if tool in row]
        on = Counter(letter(cell) for part in ("bugs", "twins") for row in data[part].values() for name, cell in row.items() if name == tool)
        if bugs:
            words = [word(*one) for one in bugs]
            right = [[judge(*one)[1] for one in bugs if name in one[0].asked or name in ("distance", "stacks")] for name in NAMES]
            body.append([TITLES[tool], ",".join(f"{where}:{count}" for where, count in on.most_common()), f"{sum(one in ('full', 'found') for one in words)}/{len(bugs)}",
                         *(str(words.count(one)) for one in ("full", "elsewhere", "-")), str(words.count("crashed") + words.count("slow")),
                         *(str(sum(name in named for named in of)) for name, of in zip(NAMES, right, strict=True)),
                         f"{sum(one in ('found', 'elsewhere') for one in twins)}/{len(twins)}" if twins else ""])  # fmt: skip
    return table(["", "cells on", "found", "of these in full", "elsewhere", "silent", "crashed, slow", *NAMES, "false alarms"], body)


def machines(data: Data) -> str:
    lines = []
    for number, facts in enumerate(data["machines"]):
        ran = [tool for part in ("bugs", "twins") for row in data[part].values() for tool, cell in row.items() if cell.get("machine", 0) == number]
        other = f", compute-sanitizer {facts.get('sanitizer') or 'unrecorded'}" if not set(ran) <= {"native", "blocking", "dumps", *OURS} else ""
        jobs = f", {facts['jobs']} jobs" if "jobs" in facts else ""
        lines.append(f"- {letter({'machine': number})}: {facts['gpu'].removeprefix('NVIDIA ')}, driver {facts['driver']}, PyTorch {facts.get('torch')}, cufence {facts['cufence']}"
                     f"{other}, {facts['date']}{jobs}: {len(ran)} cells.\n")  # fmt: skip
    return "".join(lines)


def by_name(data: Data) -> list[tuple[str, Data]]:
    unmeasured: Data = {bug.name: {} for bug in BUGS}
    return sorted((unmeasured | data["bugs"]).items(), key=lambda one: (row_of(one[0])[1], row_of(one[0])[0].kind, one[0]))


def rows(data: Data) -> str:
    """Every cell, as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["bug", "kind", "of", *COLUMNS])
    for name, row in by_name(data):
        facts, framework, _ = row_of(name)
        writer.writerow([name, facts.kind, framework, *(shown(facts, row.get(tool)) for tool in COLUMNS)])
    return out.getvalue()


def kinds(data: Data) -> str:
    """By kind: how many of its bugs each tool finds. A kind that no compared tool misses is named below the table."""
    tools = ("native", "memcheck", "run", "strict")
    count: dict[str, dict[str, list[bool]]] = {}
    for name, row in by_name(data):
        facts = row_of(name)[0]
        for tool in tools:
            if tool in row:
                count.setdefault(facts.kind, {}).setdefault(tool, []).append(word(facts, row[tool]) in ("full", "found"))
    compared = [tool for tool in tools if tool != "native"]
    easy = [kind for kind, of in sorted(count.items()) if all(tool in of and all(of[tool]) for tool in compared)]
    return table(["kind", *(TITLES[tool] for tool in tools)],
                 [[kind, *(f"{sum(of[tool])}/{len(of[tool])}" if tool in of else "" for tool in tools)] for kind, of in sorted(count.items()) if kind not in easy]
                 ) + (f"\nmemcheck and cufence find all bugs of these kinds: {'; '.join(easy)}.\n" if easy else "")  # fmt: skip


def missed(data: Data) -> str:
    """What the default options miss, by reason."""
    why: dict[str, list[str]] = {}
    for name, row in by_name(data):
        facts, _, reason = row_of(name)
        if "run" in row and word(facts, row["run"]) not in ("full", "found"):
            why.setdefault(reason or "not understood yet", []).append(name)
    return table(["why", "bugs"], [[reason, ", ".join(names)] for reason, names in why.items()])


def page(data: Data) -> str:
    alarms = [[name, TITLES[tool], judge(NO_BUG, cell)[0]] for name, row in sorted(data["twins"].items()) for tool, cell in sorted(row.items())
              if judge(NO_BUG, cell)[0] != "silent"]  # fmt: skip
    return "".join((
        INTRO, machines(data), "\n", scores(data), LEGEND, "## By kind\n\n", kinds(data), "\n## What default options miss\n\n", missed(data),
        "\n## Twins that are not silent\n\n", table(["twin", "tool", "says"], alarms) if alarms else "None.\n",
    ))  # fmt: skip


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["--add"]:
        RESULTS.write_text(as_text(merged(json.loads(RESULTS.read_text()), json.loads(Path(words[1]).read_text()))))
    data = json.loads(Path(words[0] if len(words) == 1 else RESULTS).read_text())
    PAGE.write_text(page(data))
    ROWS.write_text(rows(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
