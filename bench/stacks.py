"""Measures what one captured stack costs, by the depth of the Python stack: medians of several rounds, nanoseconds.

python3 bench/stacks.py [build/lib/libstack_hook.so]
"""

from __future__ import annotations

import ctypes
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

ROUNDS = 15
CALLS = 200_000


def at_depth(depth: int, measure: Callable[[int], float]) -> float:
    return measure(CALLS) if depth <= 1 else at_depth(depth - 1, measure)


def main() -> None:
    library = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "build" / "lib" / "libstack_hook.so"
    hook = ctypes.CDLL(str(library))
    hook.hook_python_ns.restype = hook.hook_all_ns.restype = ctypes.c_double
    print(f"Python {sys.version.split()[0]}; frames of Python, its part of a stack, all of a stack")
    for depth in (1, 4, 10, 14):
        figures = [
            statistics.median(at_depth(depth, measure) for _ in range(ROUNDS))
            for measure in (hook.hook_python_ns, hook.hook_all_ns)
        ]
        # main() and the module, and from 3.12 on no frame for a comprehension or generator
        print(f"{depth:3} calls deep  {figures[0]:6.1f} ns  {figures[1]:6.1f} ns")


if __name__ == "__main__":
    main()
