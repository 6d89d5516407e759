"""Draws the results of torch_step.py: the ratio to the native allocator of each back end, every pair a dot.

python3 bench/plot.py step.json step.png      needs matplotlib; the ending picks the format
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any


def draw(results: dict[str, Any], out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    rows = results["rows"]
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    height = 1 + 0.45 * max(sum(row["workload"] == workload for row in rows) for workload in workloads)
    figure, axes = pyplot.subplots(1, len(workloads), figsize=(5.5 * len(workloads), height), sharey=True, squeeze=False)
    for axis, workload in zip(axes[0], workloads):
        shown = [row for row in rows if row["workload"] == workload]
        for place, row in enumerate(shown):
            axis.plot(row["ratios"], [place] * len(row["ratios"]), "o", color="#9bb7d4", markersize=4)
            axis.plot([row["ratio"]], [place], "|", color="#123a63", markersize=18, markeredgewidth=2.5)
            axis.annotate(
                f"{row['ratio']:.3f}", (row["ratio"], place), (0, 11), textcoords="offset points", ha="center", fontsize=8
            )
        axis.axvline(1, color="#888888", linewidth=0.8)
        # The uncached back ends are several times slower: a logarithmic axis keeps the others apart.
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axis.xaxis.set_minor_formatter(ticker.NullFormatter())
        axis.set_xlim(
            min(0.9, 0.95 * min(min(row["ratios"]) for row in shown)), max(1.2, 1.1 * max(max(row["ratios"]) for row in shown))
        )
        axis.set_yticks(range(len(shown)), [row["title"] for row in shown])
        axis.set_ylim(len(shown) - 0.4, -0.6)
        axis.set_xlabel(f"{workload} step, time / native")
    facts = results["facts"]
    figure.suptitle(f"{facts['gpu']}, PyTorch {facts['torch']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(out, dpi=150)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("results", type=Path, help="JSON of torch_step.py")
    parser.add_argument("out", type=Path, help="picture to write: .png, .svg, .pdf")
    options = parser.parse_args()
    try:
        draw(json.loads(options.results.read_text()), options.out)
    except ImportError as error:
        print(f"plot: {error}; 'pip install matplotlib' brings it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
