"""Processes that answer requests, and the statistic of rounds.

In a round each tool takes its blocks of steps in turn with the others; of its blocks the fastest counts, for whatever else the
machine does only adds time. A round gives one ratio for each tool: its fastest block to the baseline's. Shown are their median and
quartiles.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import re
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from worker import MARK

NOISE = 0.1
Round = dict[str, list[float]]  # seconds a step of each block, by tool


class Stopped(Exception):
    """Ctrl-C, or the time is up: what is measured is kept."""


class ToolError(RuntimeError):
    """A process has ended, does not answer, or says that it cannot do what it was asked."""


def last_words(lines: list[str]) -> str:
    """The last line that names an error, or the last one."""
    lines = [line.strip() for line in lines if line.strip()]
    errors = [line for line in lines if re.search(r"error\b", line, re.I)]
    return (errors or lines or [""])[-1][-240:]


class Process:
    """A program under a tool. `is_over` is asked while it is waited for."""

    def __init__(self, command: list[str], variables: dict[str, str], is_over: Callable[[], bool] = lambda: False) -> None:
        self.is_over = is_over
        self.lines: queue.Queue[tuple[float, str] | None] = queue.Queue()
        self.tail: list[str] = []
        try:
            self.process = subprocess.Popen(
                command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", start_new_session=True,  # Ctrl-C is the parent's to handle
            )  # fmt: skip
        except OSError as error:
            raise ToolError(f"{command[0]}: {error.strerror}") from None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.tail = [*self.tail[-39:], line.rstrip()]
                self.lines.put((time.time(), line))
        self.lines.put(None)

    def next_line(self, until: float) -> tuple[float, str] | None:
        """The next line and when it came; None at the end of the output."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self.lines.get(timeout=0.2)
            if self.is_over():
                raise Stopped
            if time.time() > until:
                raise ToolError("no answer in time")

    def answer(self, seconds: float = 300) -> Any:
        until = time.time() + seconds
        while (got := self.next_line(until)) is not None:
            _, mark, text = got[1].partition(MARK)
            if mark:
                value = json.loads(text)
                if isinstance(value, dict) and "error" in value:
                    raise ToolError(value["error"])
                return value
        raise ToolError(f"ended with status {self.process.wait()}: {last_words(self.tail)}")

    def send(self, request: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # answer() says why
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()

    def ask(self, request: str, seconds: float = 300) -> Any:
        self.send(request)
        return self.answer(seconds)

    def has_ended(self) -> bool:
        """Or is about to."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.3)
        return self.process.returncode is not None

    def end(self) -> None:
        """Ends its input, and so itself."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def close(self, seconds: float = 10) -> None:
        self.end()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def play_round(tools: list[str], blocks: int, number: int, block: Callable[[str], float | None], once: set[str] = frozenset()) -> Round:
    """Takes the blocks of a round, one only of those in `once`; who comes first changes from block to block. A tool that gives None
    has failed: the caller does not name it again."""
    taken: Round = {}
    for index in range(blocks):
        at = (number * blocks + index) % len(tools)
        for tool in tools[at:] + tools[:at]:
            if (index == 0 or tool not in once) and (seconds := block(tool)) is not None:
                taken.setdefault(tool, []).append(seconds)
    return taken


def ratios(rounds: list[Round], tool: str, baseline: str) -> list[float]:
    return [min(one[tool]) / min(one[baseline]) for one in rounds if one.get(tool) and one.get(baseline)]


def quartiles(values: list[float]) -> tuple[float, float, float]:
    lower, middle, upper = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return lower, middle, upper


def short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def is_noise(found: dict[str, float]) -> bool:
    """Whether the quartiles of a summary() lie on both sides of 1, and far from each other."""
    return found["lower"] < 1 < found["upper"] and found["upper"] - found["lower"] > NOISE


def summary(rounds: list[Round], tool: str, baseline: str) -> dict[str, float] | None:
    """Of a tool: the fastest block of all, and the median and quartiles of its ratios, NaN where the baseline has no figure."""
    fastest = [min(one[tool]) for one in rounds if one.get(tool)]
    if not fastest:
        return None
    found = ratios(rounds, tool, baseline)
    lower, middle, upper = quartiles(found or [math.nan])
    return {"seconds": min(fastest), "ratio": middle, "lower": lower, "upper": upper, "rounds": len(fastest)}
