"""Reserved device memory of a model of ten thousand small tensors, native and guarded, and the time to make it.

    python3 bench/small_tensors.py             every way below, a process each; about a minute
    python3 bench/small_tensors.py --only pack

The model: COUNT parameters of 1 to 64 KiB with gradients and Adam's state, two steps. The figure is the most memory that the
device has in use beyond what it had before the first tensor (cuMemGetInfo), which also sees what no allocator counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = (str(ROOT / "build" / "bin" / "cufence"), "run")
WAYS = {
    "native": (),
    "auto": (*RUN, "--"),
    "pack": (*RUN, "--set", "small=pack", "--"),
    "map": (*RUN, "--set", "small=map", "--"),
}


def measure(count: int) -> None:
    import time

    import torch

    def used() -> int:
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return total - free

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    before, began, most = used(), time.perf_counter(), 0
    parameters = [torch.nn.Parameter(torch.randn(256 + i * 7919 % 16128, device="cuda")) for i in range(count)]
    optimizer = torch.optim.Adam(parameters, foreach=False)
    for _ in range(2):
        loss = sum((parameter * parameter).mean() for parameter in parameters)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        most = max(most, used() - before)
    asked = 4 * sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    print("figures " + json.dumps({"bytes": most, "asked": asked, "seconds": round(time.perf_counter() - began, 2)}), flush=True)


def run(way: str, count: int) -> dict[str, float] | None:
    command = [*WAYS[way], sys.executable, __file__, "--measure", "--count", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=dict(os.environ), check=False, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("figures ")]
    return json.loads(lines[0].split(" ", 1)[1]) if lines and done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=WAYS, help="these ways, besides native")
    parser.add_argument("--count", type=int, default=10000, help="parameters")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.count)
        return
    native = run("native", arguments.count)
    if native is None:
        raise SystemExit("the native run has failed")
    print(f"{'way':8} {'device memory':>14} {'of native':>10} {'seconds':>8}")
    for way in ["native", *[way for way in WAYS if way != "native" and way in (arguments.only or WAYS)]]:
        figures = native if way == "native" else run(way, arguments.count)
        if figures is None:
            print(f"{way:8} failed")
            continue
        print(f"{way:8} {figures['bytes'] / 2**20:10.0f} MiB {figures['bytes'] / native['bytes']:10.2f} {figures['seconds']:8.2f}")


if __name__ == "__main__":
    main()
