"""What `cufence run` adds to a launch, in a program of C that knows nothing of it.

plain_launches runs in turn as it is and under `cufence run`; a pair is one run of each. Printed: the medians of both, and the
median and the quartiles of the differences of the pairs, in nanoseconds for one launch. Needs a GPU.

    python3 bench/hooked.py [--pairs 15] [--threads 1 4] [--set KEY=VALUE]... [--programs build/bin]
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
        sys.exit(f"bench/hooked.py: {command[0]} ended with status {run.returncode}\n{run.stderr}")
    return float(run.stdout)


def compare(plain: list[Path | str], hooked: list[Path | str], pairs: int) -> str:
    times = []
    for index in range(pairs):
        order = (plain, hooked) if index % 2 == 0 else (hooked, plain)
        taken = [launch_ns(command) for command in order]
        times.append(taken if index % 2 == 0 else taken[::-1])
    lower, middle, upper = statistics.quantiles([after - before for before, after in times], n=4)
    before, after = (statistics.median(column) for column in zip(*times, strict=True))
    return f"{before:8.1f} ns plain, {after:8.1f} ns hooked: {middle:.1f} ns more (quartiles {lower:.1f}, {upper:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="how many threads launch at once")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of cufence run")
    parser.add_argument("--programs", type=Path, default=Path(__file__).resolve().parents[1] / "build" / "bin")
    arguments = parser.parse_args()
    if arguments.pairs < 2:
        parser.error(f"--pairs: {arguments.pairs} is not a number from 2")
    for program in ("plain_launches", "cufence"):
        if not (arguments.programs / program).is_file():
            parser.error(f"there is no {arguments.programs / program}; './dev build' makes it, and --programs names its folder")
    settings = [word for setting in arguments.set for word in ("--set", setting)]
    for threads in arguments.threads:
        plain: list[Path | str] = [arguments.programs / "plain_launches", str(threads)]
        hooked = [arguments.programs / "cufence", "run", *settings, "--", *plain]
        print(f"hooked    {compare(plain, hooked, arguments.pairs)}; {threads} threads, {arguments.pairs} pairs", flush=True)


if __name__ == "__main__":
    main()
