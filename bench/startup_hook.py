"""What the start-up hook costs an interpreter that has nothing to do with cufence.

Two virtual environments that differ in cufence-startup.pth alone start `python -c pass` in turn; a pair is one start of each.
Printed: the medians of both, and median and quartiles of the differences of the pairs, in milliseconds. Fails above --limit.

    python3 bench/startup_hook.py [--pairs 400] [--limit 1.0]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HOOK = Path(__file__).resolve().parents[1] / "allocator" / "torch" / "cufence-startup.pth"
NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "LD_PRELOAD", "CUFENCE_RESTARTED")


def interpreter(folder: Path, has_hook: bool) -> Path:
    venv.create(folder, with_pip=False, symlinks=True)
    if has_hook:
        shutil.copy(HOOK, next((folder / "lib").glob("python*/site-packages")))
    return folder / "bin" / "python"


def start_ms(python: Path, environment: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run([python, "-c", "pass"], env=environment, check=True)
    return (time.perf_counter() - begin) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--limit", type=float, default=1.0, help="milliseconds that the hook may cost")
    arguments = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    with tempfile.TemporaryDirectory() as folder:
        plain = interpreter(Path(folder) / "plain", has_hook=False)
        hooked = interpreter(Path(folder) / "hooked", has_hook=True)
        for python in (plain, hooked) * 5:  # file caches
            start_ms(python, environment)
        pairs = []
        for index in range(arguments.pairs):
            first, second = (plain, hooked) if index % 2 == 0 else (hooked, plain)
            times = {first: start_ms(first, environment), second: start_ms(second, environment)}
            pairs.append((times[plain], times[hooked]))
    lower, middle, upper = statistics.quantiles([after - before for before, after in pairs], n=4)
    before, after = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{arguments.pairs} pairs: {before:.3f} ms without the hook, {after:.3f} ms with it")
    print(f"difference {middle:+.3f} ms (quartiles {lower:+.3f}, {upper:+.3f}); limit {arguments.limit} ms")
    sys.exit(0 if middle < arguments.limit else 1)


if __name__ == "__main__":
    main()
