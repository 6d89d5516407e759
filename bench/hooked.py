"""What `cufence run` adds to a launch, in a program of C that knows nothing of it.

plain_launches runs in turn as it is and under `cufence run`; a pair is one run of each. Printed: the medians of both, and the
median and the quartiles of the differences of the pairs, in nanoseconds for one launch. Needs a GPU.

    python3 bench/hooked.py [--pairs 15] [--set KEY=VALUE]... [--programs build/bin]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path


def launch_ns(command: list[Path | str]) -> float:
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"bench/hooked.py: {command[-1]} ended with status {run.returncode}\n{run.stderr}")
    return float(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of cufence run")
    parser.add_argument("--programs", type=Path, default=Path(__file__).resolve().parents[1] / "build" / "bin")
    arguments = parser.parse_args()
    if arguments.pairs < 2:
        parser.error(f"--pairs: {arguments.pairs} is not a number from 2")
    plain: list[Path | str] = [arguments.programs / "plain_launches"]
    hooked = [arguments.programs / "cufence", "run", *(f"--set={setting}" for setting in arguments.set), "--", *plain]
    pairs = []
    for index in range(arguments.pairs):
        first, second = (False, True) if index % 2 == 0 else (True, False)
        times = {is_hooked: launch_ns(hooked if is_hooked else plain) for is_hooked in (first, second)}
        pairs.append((times[False], times[True]))
    lower, middle, upper = statistics.quantiles([after - before for before, after in pairs], n=4)
    before, after = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"hooked    {before:8.1f} ns plain, {after:8.1f} ns under cufence run: {middle:.1f} ns more "
          f"(quartiles {lower:.1f}, {upper:.1f}; {arguments.pairs} pairs)")  # fmt: skip


if __name__ == "__main__":
    main()
