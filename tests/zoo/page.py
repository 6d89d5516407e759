"""Writes docs/detection.md from a result of `./dev matrix`: python3 tests/zoo/page.py [F] [--check]

Without F it is tests/gpu/results/matrix.json. --check: status 1 if the page is another one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from judge import Facts, judge
from matrix import COLUMNS, CORPORA, NO_BUG, corpus_facts
from tools import ROOT, TOOLS
from zoo import BUGS

RESULTS, PAGE = ROOT / "tests" / "gpu" / "results" / "matrix.json", ROOT / "docs" / "detection.md"
TITLES = {tool: TOOLS[tool].title for tool in COLUMNS if tool in TOOLS} | {
    "run": "cufence run", "strict": "cufence run, uaf=strict", "own": "cufence, the option for it", "own_tool": "initcheck or racecheck"}  # fmt: skip
WHERE = ("kernel", "line", "thread", "buffer")
INTRO = """# What it finds

Planted bugs, a row each, and each tool that people use: a command away, `./dev matrix` ([tests/zoo](../tests/zoo/zoo.py) lists the bugs; this page
is written by `python3 tests/zoo/page.py`, which judges what the tools have said anew each time). A twin is the same program where it is right: its
buffers have room for what it does, or it waits. Whatever a tool says about a twin is a false alarm.

One rule for every tool ([judge.py](../tests/zoo/judge.py)): a report is at the bug if its kind is one that the bug can have and it names the kernel,
the line, the buffer or the call of the [list](../tests/zoo/zoo.py). An error of CUDA is a report, too: of the program that prints its own traceback
with the line of the launch, or whose assertion is printed with its place, the bug is found.

"""
LEGEND = """
full: found, and of kernel, source line, thread and buffer all are right that the list has. found: without some of these. elsewhere: something was
said, but not at the bug: an error of CUDA at a later call, or another place. crashed: the program ended otherwise than it should, and nothing was
said. slow: no end within 30 s, a Python program 60 s, nor alone, and nothing said until then. -: silent. An empty cell was not run: for want of time, or because a tool for
PyTorch's allocator has no use there, or the bug needs no option. Letters say on which machine, where not on the first; \\*: of a run that kept no output,
so that only kernel and line were compared; ?: there neither.

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


def shown(facts: Facts, cell: Data | None) -> str:
    mark = "" if not cell else (chr(ord("a") + cell["machine"]) if cell.get("machine") else "") + ("\\*" if "was" in cell else "")
    return word(facts, cell) + (f" {mark}" if mark else "")


def scores(data: Data) -> str:
    body = []
    for tool in COLUMNS:
        bugs = [(row_of(name)[0], row[tool]) for name, row in data["bugs"].items() if tool in row]
        bugs = [one for one in bugs if word(*one) != "?"]
        twins = [judge(NO_BUG, row[tool])[0] for row in data["twins"].values() if tool in row]
        if bugs:
            words = [word(*one) for one in bugs]
            right = [[judge(*one)[1] for one in bugs if name in one[0].asked or name in ("distance", "stacks")] for name in NAMES]
            body.append([TITLES[tool], f"{sum(one in ('full', 'found') for one in words)} of {len(bugs)}",
                         *(str(words.count(one)) for one in ("full", "elsewhere", "-")), str(words.count("crashed") + words.count("slow")),
                         *(str(sum(name in named for named in of)) for name, of in zip(NAMES, right, strict=True)),
                         f"{sum(one in ('found', 'elsewhere') for one in twins)} of {len(twins)}" if twins else ""])  # fmt: skip
    return table(["", "found", "of these in full", "elsewhere", "silent", "crashed, slow", *NAMES, "false alarms"], body)


def machines(data: Data) -> str:
    lines = []
    for number, facts in enumerate(data["machines"]):
        count = sum(cell.get("machine") == number for part in ("bugs", "twins") for row in data[part].values() for cell in row.values())
        jobs = f", {facts['jobs']} programs at a time" if "jobs" in facts else ""
        lines.append(f"- {chr(ord('a') + number)}: {facts['gpu']}, driver {facts['driver']}, PyTorch {facts.get('torch')}, cufence {facts['cufence']}, "
                     f"{facts['date']}{jobs}: {count} cells. {facts.get('note', '')}".strip() + "\n")  # fmt: skip
    return "".join(lines)


def page(data: Data) -> str:
    tools = [tool for tool in COLUMNS if any(tool in row for row in data["bugs"].values())]
    body, misses = [], []
    unmeasured: Data = {bug.name: {} for bug in BUGS}
    for name, row in sorted((unmeasured | data["bugs"]).items(), key=lambda one: (row_of(one[0])[1], row_of(one[0])[0].kind, one[0])):
        facts, framework, reason = row_of(name)
        body.append([name, facts.kind, framework, *(shown(facts, row.get(tool)) for tool in tools)])
        if "run" in row and word(facts, row["run"]) not in ("full", "found", "?"):
            if row["run"].get("slow") and "said" not in row["run"]:
                reason = "the program looks at no error and never ends; what was said until then was not kept"
            misses.append([name, word(facts, row["run"]), word(facts, row.get("own")), reason or "not understood yet"])
    alarms = [[name, TITLES[tool], judge(NO_BUG, cell)[0]] for name, row in sorted(data["twins"].items()) for tool, cell in sorted(row.items())
              if judge(NO_BUG, cell)[0] != "silent"]  # fmt: skip
    return "".join((
        INTRO, machines(data), "\n", scores(data), "\nkernel to call: by how many of its cells each is named rightly.\n",
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
