#!/usr/bin/env python3
"""Follows one fault through the house, on the simulated device: way.py [--list] [BUG]

Builds the library with -finstrument-functions into build-way, plants a bug (`cufence demo BUG`, overrun without one), and counts what runs
from the dump that has come until its report is out: functions, files and rooms that it passes, how often the next function that is entered stands in a
room above that of the last one (the floors are those of tests/python/test_rooms.py), and how often a core dump is opened. --list: every step.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-way"
FIRST = "explain"  # of allocator/fault/monitor.c: a dump is there
OPENS = "coredump_open"
sys.path.insert(0, str(ROOT / "tests/python"))
from test_rooms import FLOOR  # noqa: E402


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def build() -> None:
    flags = "-O1 -g -finstrument-functions"
    subprocess.run(["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", f"-DCMAKE_C_FLAGS={flags}", "-DCUFENCE_BENCH=OFF", "-DCUFENCE_EXAMPLES=OFF"],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    subprocess.run(["ninja", "-C", BUILD], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-o", BUILD / "way.so", Path(__file__).with_name("way.c"), "-ldl"], check=True)


def offset_of(library: Path, function: str, source: str) -> str:
    """The offset of a function that is static, found by its file: others may have the same name."""
    for line in output("nm", "-l", str(library)).splitlines():
        match = re.fullmatch(rf"([0-9a-f]+) \w {function}\t(.*):\d+", line)
        if match and match[2].endswith(source):
            return match[1]
    raise SystemExit(f"way.py: {library} has no {function}() of {source}")


def described(steps: list[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    """The function and the file of each (module, offset)."""
    found = {}
    for module in {module for module, _ in steps}:
        offsets = sorted({offset for one, offset in steps if one == module})
        lines = output("addr2line", "-f", "-e", module, *offsets).splitlines()
        for offset, function, place in zip(offsets, lines[::2], lines[1::2]):
            found[module, offset] = (function, re.sub(r"^.*/allocator/|:.*$", "", place))
    return found


def play(bug: str) -> list[tuple[int, str, str]]:
    """Every call, as (depth, function, file)."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        library = BUILD / "lib/libcufence.so"
        env = os.environ | {"CUFENCE_DRIVER": "sim", "LD_PRELOAD": str(BUILD / "way.so"), "WAY_FILE": str(trace), "WAY_MODULE": library.name,
                            "WAY_OFFSET": offset_of(library, FIRST, "fault/monitor.c")}  # fmt: skip
        subprocess.run([BUILD / "bin/cufence", "demo", "--set", "explain=rerun", bug], env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = [line.split() for line in trace.read_text().splitlines()]
    names = described([(line[2], line[3]) for line in lines if line[1] == "+"])
    depth: dict[str, int] = {}
    calls = []
    for thread, sign, *where in lines:
        depth[thread] = max(0, depth.get(thread, 0) + (1 if sign == "+" else -1))
        if sign == "+":
            calls.append((depth[thread], *names[where[0], where[1]]))
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("bug", nargs="?", default="overrun")
    options = parser.parse_args()
    build()
    calls = play(options.bug)
    if options.list:
        for depth, function, file in calls:
            print(f"{'  ' * depth}{function}  {file}")
    rooms = [file.split("/")[0] for _, _, file in calls]
    up = sum(FLOOR.get(after, 0) < FLOOR.get(before, 0) for before, after in zip(rooms, rooms[1:]))
    print(f"calls {len(calls)}, functions {len({call[1:] for call in calls})}, files {len({file for _, _, file in calls})}, "
          f"rooms {len(set(rooms))}, steps back up {up}, "
          f"dump opened {sum(function == OPENS for _, function, _ in calls)} times")  # fmt: skip


if __name__ == "__main__":
    main()
