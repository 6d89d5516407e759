"""Planted bugs under each tool: is it found? Programs of tests/gpu/stories, which end well where nothing sees the bug."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rounds import Process, ToolError, last_words
from tools import ROOT, TOOLS

STORIES = ROOT / "tests" / "gpu" / "stories"
BUGS = {
    "triton_overrun": "reads and writes one element past the end",
    "triton_store_only": "stores one element past the end",
    "use_after_free": "uses a buffer that was freed long ago",
    "triton_atomic": "adds to one element past the end",
    "fp16_odd": "two bytes past an odd size",
    "underrun": "reads the element before the first",
    "graph_overrun": "reads past the end in a CUDA graph",
    "late_in_a_loop": "each step uses what the one before has freed",
}
QUICK = 4  # of them
SECONDS = 60
# What says that the bug was seen, and not that the tool could not run the program.
SEEN = re.compile(
    r"illegal memory access|Starting GPU coredump generation|Invalid __\w+__ \w+ of size|SUMMARY: cufence: "
    r"|unspecified launch failure|misaligned address"
)


def verdict(status: int | None, said: str) -> str:
    if status is None:
        return f"not finished in {SECONDS} s"
    if SEEN.search(said):
        return "found"
    if status == 0:
        return "silent"
    return f"status {status}: {last_words(said.splitlines())}"


def command_of(tool: str, bug: str) -> list[str]:
    enable = [STORIES / "with_enable.py", ""] if TOOLS[tool].enable is not None else []
    return TOOLS[tool].command(sys.executable, *enable, STORIES / f"{bug}.py")


def try_bug(tool: str, bug: str, is_over: Callable[[], bool]) -> str:
    """The verdict. Raises Stopped."""
    process, said = None, []
    try:
        process = Process(command_of(tool, bug), TOOLS[tool].variables(), is_over)
        until = time.time() + SECONDS
        while (got := process.next_line(until)) is not None:
            said.append(got[1])
        return verdict(process.process.wait(), "".join(said))
    except ToolError as error:
        return verdict(None, "") if process else str(error)
    finally:
        if process:
            process.close(0.1)


def try_all(pairs: list[tuple[str, str]], jobs: int, is_over: Callable[[], bool]) -> Iterator[tuple[tuple[str, str], str]]:
    """The verdicts of (bug, tool) as they come, so many at a time. Raises Stopped."""
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(try_bug, tool, bug, is_over): (bug, tool) for bug, tool in pairs}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def remove_dumps() -> None:
    """Of the tool `dumps`."""
    for dump in Path("/tmp").glob("cufence-bench.*.core"):
        dump.unlink(missing_ok=True)
