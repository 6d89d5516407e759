"""Measures what a captured stack costs, and a launch on record with one, by the number of Python frames.

python3 bench/stacks.py [build/lib/libstack_hook.so]

Figures are nanoseconds: Python's part of a stack, all of a stack, a launch of a kernel with four arguments on record, and an
allocation of 4 KiB with its free, which takes Python's part unless CUFENCE_OPTIONS says stacks=off. One stack again and again; or
many stacks in turn, from as many places, with the interpreter at work in between, less what the clock takes. Each is the mean of
the fastest of several rounds: whatever else runs on the machine only adds. On the simulated device unless CUFENCE_DRIVER names
another.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

ROUNDS = 50
CALLS = 40_000
NOTHING, PYTHON, STACK, LAUNCH, ALLOCATION = range(5)  # of stack_hook.c


def at_depth(depth: int, places: int, work: Callable[[], None]) -> Callable[[], None]:
    """A function that calls `work` under `depth` frames, each of another function, from 2 ** places places."""
    lines = ["def f0(): work()"]
    for i in range(1, depth):
        call = f"f{i - 1}()"
        lines.append(f"def f{i}():\n    {call}" + (f"\n    {call}" if i <= places else ""))
    space = {"work": work}
    exec("\n".join(lines), space)
    return space[f"f{depth - 1}"]


def again_and_again(hook: ctypes.CDLL, depth: int, what: int) -> float:
    samples: list[float] = []
    measure = at_depth(depth, 0, lambda: samples.append(hook.hook_ns(what, CALLS)))
    for _ in range(ROUNDS):
        measure()
    return min(samples)


def in_turn(hook: ctypes.CDLL, depth: int, places: int, what: int) -> float:
    samples: list[float] = []
    measure = at_depth(depth, places, lambda: samples.append(hook.hook_ns(what, 1)))
    means: list[float] = []
    for _ in range(ROUNDS):
        samples.clear()
        measure()
        means.append(statistics.mean(samples))
    return min(means)


def main() -> None:
    library = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "build" / "lib" / "libstack_hook.so"
    os.environ.setdefault("CUFENCE_DRIVER", "sim")
    hook = ctypes.CDLL(str(library))
    hook.hook_ns.restype = ctypes.c_double
    hook.hook_start.restype = ctypes.c_char_p
    failure = hook.hook_start()
    if failure:
        sys.exit(f"bench/stacks.py: {failure.decode()}")
    around = 4  # further frames: the module, main() and the two above
    print(f"Python {sys.version.split()[0]}: Python's part, the stack, the launch, an allocation and its free; ns")
    for frames in (5, 10, 20, 40):
        figures = [again_and_again(hook, frames - around, what) for what in (PYTHON, STACK, LAUNCH, ALLOCATION)]
        print(f"{frames:3} frames, one stack   " + "".join(f"{figure:8.1f}" for figure in figures))
    clock = in_turn(hook, 20 - around, 9, NOTHING)
    figures = [in_turn(hook, 20 - around, 9, what) - clock for what in (PYTHON, STACK, LAUNCH, ALLOCATION)]
    print(" 20 frames, 512 stacks  " + "".join(f"{figure:8.1f}" for figure in figures))


if __name__ == "__main__":
    main()
