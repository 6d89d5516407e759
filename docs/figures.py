"""Figures of cost in README.md and docs/ have one source, tests/gpu/results/bench.json: figures.py check | write, in the top folder.

`./dev bench --json` writes that file. A page has its tables and pictures between the comments `<!-- cost: begin -->` and `<!-- cost: end -->`,
or `<!-- all costs: begin -->` and `<!-- all costs: end -->`. Any other sentence of a page that says how many times as long a training step
takes is refused: it would be true for one version only. A picture has the results' digest; `write` draws those of other results anew.
"""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
from rounds import summary  # noqa: E402
from store import digest  # noqa: E402
from tools import BASELINE  # noqa: E402

RESULTS = pathlib.Path("tests/gpu/results/bench.json")
SCREENS = pathlib.Path("docs/screens")
PAGES = [pathlib.Path("README.md"), *sorted(pathlib.Path("docs").rglob("*.md"))]
FEW = ("enable", "run", "strict", "blocking", "memcheck", "memcheck_uncached")  # in `cost`; `all costs` has every tool
PICTURES = {  # name: what it shows, in words
    "ratio": "The time of a step by workload and tool, native PyTorch = 1",
    "found": "What each tool costs on a training step, and how many planted bugs it finds",
    "scaling": "An allocation and its free by live buffers and by threads, and a launch by threads",
    "memory": "Memory of the device and of the host that training GPT-2 takes, by tool",
}
BLOCK = re.compile(r"(<!-- (cost|all costs): begin -->\n).*?(<!-- \2: end -->)", re.S)
ELSEWHERE = re.compile(r"(?:training|inference)\s+steps?\b[^.|]{0,60}?\d(?:\.\d+)?\s+times(?:\s+as\s+long|\s+slower)")


def cell(row, tool):
    found = summary(row["rounds"], tool, BASELINE)
    if found:
        return f"{found['ratio']:.2f}" if found["ratio"] < 10 else f"{found['ratio']:.0f}"
    return "no" if tool in row["failed"] else "–"


def table(data, tools):
    shown = [row for row in data["workloads"].values() if row["group"] == "torch" and row["rounds"]]
    lines = ["| native PyTorch = 1 | " + " | ".join(row["title"] for row in shown) + " | bugs found |", "|---|" + "---|" * (len(shown) + 1)]
    for tool in tools:
        words = [by_tool.get(tool) for by_tool in data["found"].values()]
        bugs = f"{words.count('found')} of {len(words)}" if words and None not in words else "–"
        lines.append(f"| {data['tools'][tool]} | " + " | ".join(cell(row, tool) for row in shown) + f" | {bugs} |")
    facts, counts = data["facts"], sorted(len(row["rounds"]) for row in shown)
    lines += ["", f"{facts['gpu']}, driver {facts['driver']}, PyTorch {facts['torch']}, {facts['date']}: medians of {counts[0]} to {counts[-1]} rounds, in which all tools take"
              " turns; of each round the fastest blocks are compared. \"no\": the tool cannot run it."]  # fmt: skip
    return lines


def pictures(page, names):
    """Lines that show those that there are."""
    screens = SCREENS if page == PAGES[0] else pathlib.Path("../" * (len(page.parts) - 2)) / "screens"
    files = {name: f"bench-{name}.svg" for name in names}
    return [line for name, file in files.items() if (SCREENS / file).is_file()
            for line in (f'<img src="{(screens / file).as_posix()}" width="840" alt="{PICTURES[name]}">', "")]  # fmt: skip


def block(data, kind, page):
    if kind == "cost":
        lines = [*pictures(page, ["found"]), *table(data, [tool for tool in FEW if tool in data["tools"]])]
    else:
        seen = [tool for tool in data["tools"] if tool != BASELINE and any(tool in one for row in data["workloads"].values() if row["group"] == "torch" for one in row["rounds"])]
        lines = [*table(data, seen), "", *pictures(page, PICTURES)]
    return "\n".join(lines).rstrip("\n") + "\n"


def stale(data):
    """Why the pictures are not those of the results."""
    files = sorted(SCREENS.glob("bench-*.svg"))
    if not files:
        return f"there are no {SCREENS}/bench-*.svg"
    return next((f"{file} is of other results than {RESULTS}" for file in files if f"results {digest(data)}" not in file.read_text()), None)


def draw(data):
    from plots import draw_all

    for file in SCREENS.glob("bench-*.svg"):
        file.unlink()
    for file in draw_all(data, SCREENS / "drawn"):
        if file.suffix == ".svg":
            file.rename(SCREENS / f"bench-{file.name}")
        else:
            file.unlink()
    (SCREENS / "drawn").rmdir()


def main():
    data, blocks, is_writing = json.loads(RESULTS.read_text()), 0, sys.argv[1] == "write"
    if (why := stale(data)) and not is_writing:
        sys.exit(f"{why}: python3 docs/figures.py write, which needs matplotlib")
    if why:
        draw(data)
    for page in PAGES:
        text = page.read_text()
        fresh, count = BLOCK.subn(lambda m: m[1] + block(data, m[2], page) + m[3], text)  # noqa: B023
        blocks += count
        if stray := ELSEWHERE.search(BLOCK.sub("", text)):
            sys.exit(f"{page}: a figure of cost that is not from {RESULTS}: {' '.join(stray[0].split())}")
        if is_writing:
            page.write_text(fresh)
        elif fresh != text:
            sys.exit(f"{page} has other figures than {RESULTS}: python3 docs/figures.py write")
    if not blocks:
        sys.exit("no page has the comments around figures of cost")


if __name__ == "__main__":
    main()
