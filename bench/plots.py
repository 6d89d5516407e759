"""Draws the results of `./dev bench`, as SVG and PNG: python3 bench/plots.py F DIR. Needs matplotlib.

ratio    the time of a step by tool, native = 1: the median of the rounds, and the quartiles as a line
found    what a tool costs against what it finds
scaling  an allocation and its free by live buffers and by threads, and a launch by threads
memory   of the device and of the host
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot, ticker  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))
from rounds import short, summary  # noqa: E402
from store import digest  # noqa: E402
from tools import BASELINE, OURS, TOOLS  # noqa: E402

OURS_COLOR, OTHERS_COLOR = "#0b6e4f", "#8a8f98"
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none", "svg.hashsalt": "cufence",
         "axes.grid": True, "grid.color": "#e3e5e8", "axes.axisbelow": True, "legend.frameon": False}  # fmt: skip
Figure = Any


def color_of(tool: str) -> str:
    return OURS_COLOR if tool in OURS else OTHERS_COLOR


def shown(data: dict[str, Any], name: str) -> dict[str, dict[str, float]]:
    """The summary of each tool that has a ratio in a workload."""
    rounds = data["workloads"].get(name, {"rounds": []})["rounds"]
    found = {tool: summary(rounds, tool, BASELINE) for tool in TOOLS}
    return {tool: one for tool, one in found.items() if one and one["ratio"] == one["ratio"]}


def plain(axis: Any) -> None:
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def ratio(data: dict[str, Any]) -> Figure | None:
    names = [name for name, row in data["workloads"].items() if row["group"] == "torch" and row["rounds"]]
    tools = [tool for tool in TOOLS if tool != BASELINE and any(tool in shown(data, name) for name in names)]
    if not tools:
        return None
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(3.1 * columns + 2, rows * (0.6 + 0.19 * len(tools))), sharey=True, sharex=True, squeeze=False
    )
    for axis, name in zip(axes.flat, names, strict=False):
        for place, (tool, one) in enumerate((tool, shown(data, name).get(tool)) for tool in tools):
            if one:
                axis.plot([one["lower"], one["upper"]], [place] * 2, color=color_of(tool), linewidth=1.6)
                axis.plot([one["ratio"]], [place], "o", color=color_of(tool), markersize=4)
                axis.annotate(short(one["ratio"]), (one["upper"], place), (5, -3), textcoords="offset points", color=color_of(tool), fontsize=8)
            else:
                axis.annotate("not possible" if tool in data["workloads"][name]["failed"] else "not measured", (1.05, place), (0, -3),
                              textcoords="offset points", color="#b6bac0", fontsize=7.5)  # fmt: skip
        axis.axvline(1, color="#444a52", linewidth=0.8)
        axis.set(xscale="log", title=data["workloads"][name]["title"], ylim=(len(tools) - 0.4, -0.6))
        axis.set_yticks(range(len(tools)), [TOOLS[tool].title for tool in tools])
        axis.grid(axis="y", visible=False)
        plain(axis.xaxis)
    left, right = axes[0][0].get_xlim()
    axes[0][0].set_xlim(left, right * 2)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    figure.supxlabel("time of a step, native = 1", fontsize=9)
    return figure


def found(data: dict[str, Any]) -> Figure | None:
    costs, bugs = shown(data, "training"), data["found"]
    counts = {tool: [by_tool[tool] for by_tool in bugs.values() if tool in by_tool] for tool in costs}
    tools = [tool for tool in costs if bugs and len(counts[tool]) == len(bugs)]
    if not tools:
        return None
    figure, (cost, count) = pyplot.subplots(1, 2, figsize=(8.5, 1 + 0.22 * len(tools)), sharey=True)
    for place, tool in enumerate(tools):
        cost.plot([costs[tool]["ratio"]], [place], "o", color=color_of(tool), markersize=5)
        cost.annotate(
            short(costs[tool]["ratio"]), (costs[tool]["ratio"], place), (6, -3), textcoords="offset points", color=color_of(tool), fontsize=8
        )
        count.barh(place, counts[tool].count("found"), color=color_of(tool), height=0.7)
        count.annotate(f"{counts[tool].count('found')}", (counts[tool].count("found"), place), (3, -3), textcoords="offset points", fontsize=8)
    cost.set(xscale="log", xlabel="time of a training step, native = 1", xlim=(0.7, 3 * max(costs[tool]["ratio"] for tool in tools)))
    cost.set(ylim=(len(tools) - 0.4, -0.6))
    cost.set_yticks(range(len(tools)), [TOOLS[tool].title for tool in tools])
    count.set(xlabel=f"planted bugs found, of {len(bugs)}", xlim=(0, len(bugs) + 0.5))
    count.set_xticks(range(len(bugs) + 1))
    for axis in (cost, count):
        axis.grid(axis="y", visible=False)
    plain(cost.xaxis)
    return figure


def scale(data: dict[str, Any], name: str) -> dict[str, list[tuple[int, float]]]:
    """Of each tool: (N, seconds) of the workloads NAME.N."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for full, row in data["workloads"].items():
        if full.startswith(name + "."):
            for tool in TOOLS:
                if one := summary(row["rounds"], tool, BASELINE):
                    lines.setdefault(tool, []).append((int(full.split(".")[1]), one["seconds"]))
    return {tool: sorted(line) for tool, line in lines.items()}


def scaling(data: dict[str, Any]) -> Figure | None:
    parts = {"live": "live buffers", "allocate": "threads that allocate", "launch": "threads that launch"}
    lines = {name: scale(data, name) for name in parts}
    tools = [tool for tool in TOOLS if any(tool in line for line in lines.values())]
    if not tools:
        return None
    figure, axes = pyplot.subplots(1, len(parts), figsize=(11.5, 3.9))
    styles = dict(zip(tools, ("o-", "s--", "^-.", "D:", "v-", "P--", "X-.", "<:", ">-", "h--"), strict=False))
    for axis, (name, title) in zip(axes, parts.items(), strict=True):
        for tool, line in lines[name].items():
            axis.plot(*zip(*line, strict=True), styles.get(tool, "-"), color=color_of(tool), markersize=3.5, linewidth=1.1, label=tool)
        axis.set(yscale="log", xlabel=title)
        axis.set_xscale("log", base=10 if name == "live" else 2)
        plain(axis.xaxis)
        axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value * 1e6:g}"))
        axis.yaxis.set_minor_formatter(ticker.NullFormatter())
    titles = ("free one, allocate another", "allocate and free 4 KiB", "a launch")
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title)
    axes[0].set_ylabel("microseconds, as one thread sees it")
    handles = [
        pyplot.Line2D([], [], color=color_of(tool), marker=styles[tool][0], linestyle=styles[tool][1:], markersize=4)
        for tool in tools
        if tool in styles
    ]
    figure.legend(handles, [TOOLS[tool].title for tool in tools if tool in styles], loc="outside lower center", ncols=4, fontsize=8)
    return figure


def memory(data: dict[str, Any]) -> Figure | None:
    bars = [(model, tool, one) for model, by_tool in data["memory"].items() for tool, one in by_tool.items()]
    if not bars:
        return None
    figure, axes = pyplot.subplots(1, 2, figsize=(9.5, 1 + 0.22 * len(bars)), sharey=True)
    for axis, kind in zip(axes, ("device", "host"), strict=True):
        for place, (_, tool, one) in enumerate(bars):
            axis.barh(place, one[kind] / 2**30, color=color_of(tool), height=0.7)
            axis.annotate(f"{one[kind] / 2**30:.2f}", (one[kind] / 2**30, place), (3, -3), textcoords="offset points", fontsize=8)
        axis.set(xlabel=f"GiB of the {kind}, at most", ylim=(len(bars) - 0.4, -0.6))
        axis.grid(axis="y", visible=False)
        axis.set_xmargin(0.15)
    several = len(data["memory"]) > 1
    axes[0].set_yticks(range(len(bars)), [TOOLS[tool].title + (f", {model}" if several else "") for model, tool, _ in bars])
    return figure


PLOTS: dict[str, Callable[[dict[str, Any]], Figure | None]] = {"ratio": ratio, "found": found, "scaling": scaling, "memory": memory}


def draw_all(data: dict[str, Any], folder: Path) -> list[Path]:
    """Draws what the results have figures for; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    facts = data["facts"]
    told = f"{facts.get('gpu')}, driver {facts.get('driver')}, PyTorch {facts.get('torch')}, cufence {facts.get('cufence')}, {facts.get('date')}"
    with matplotlib.rc_context(STYLE):
        for name, plot in PLOTS.items():
            if figure := plot(data):
                figure.suptitle(told, fontsize=8, color="#5a6069")
                figure.set_layout_engine("constrained")
                for ending in ("svg", "png"):
                    files.append(folder / f"{name}.{ending}")
                    figure.savefig(
                        files[-1], dpi=150, metadata={"Description": f"results {digest(data)}", **({"Date": None} if ending == "svg" else {})}
                    )
                pyplot.close(figure)
    return files


if __name__ == "__main__":
    print(*draw_all(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])), sep="\n")
