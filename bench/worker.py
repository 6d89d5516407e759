"""A process that holds PyTorch under one tool and takes steps of the workloads as it is asked to: worker.py TOOL.

Each line on stdin is a request, each answer a line on stdout that begins with MARK:
  warm WORKLOAD        builds it and takes two steps: {"probe": seconds of another}, or {"why": "..."} where it cannot be had here
  WORKLOAD STEPS       seconds of STEPS steps, after one that is not timed
  memory WORKLOAD      what MEMORY_STEPS steps of it take at most, in a fresh process: {"device", "reserved" (as PyTorch says), "used"
                       (by tensors), "host": bytes, "coverage": with cufence.enable() uaf=adaptive after each step, [places
                       tested, places that have freed]}
  pin COUNT            stays on the first COUNT processors
A request that fails is answered with {"error": "..."}.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MARK = "bench> "
MEMORY_STEPS, MEMORY_LOOKS = 20, (1, 2)  # of these steps; nvidia-smi takes half a second


def say(value: Any) -> None:
    print(MARK + json.dumps(value), flush=True)


def enable(name: str) -> Any:
    """Calls cufence.enable() where the tool is that."""
    from tools import TOOLS

    options = TOOLS[name].enable
    if options is None:
        return None
    import cufence

    cufence.enable(**options)
    return cufence


class Bench:
    def __init__(self, torch: Any, cufence: Any) -> None:
        self.torch, self.cufence = torch, cufence
        self.steps: dict[str, Any] = {}

    def build(self, name: str) -> Any:
        self.torch.manual_seed(1)
        self.steps[name] = importlib.import_module(name).build(self.torch)
        return self.steps[name]

    def warm(self, name: str) -> dict[str, Any]:
        why_not = getattr(importlib.import_module(name), "why_not", None)
        if why_not and (why := why_not(self.torch)):
            return {"why": why}
        step = self.build(name)
        step()
        step()
        return {"probe": self.timed(name, 1)}

    def timed(self, name: str, count: int) -> float:
        step, synchronize = self.steps[name], self.torch.cuda.synchronize
        gc.collect()
        gc.freeze()  # what lives now lives on: the next collection does not look at it
        step()
        synchronize()
        start = time.perf_counter()
        for _ in range(count):
            step()
        synchronize()
        return time.perf_counter() - start

    def memory(self, name: str) -> dict[str, Any]:
        cuda, number, coverage = self.torch.cuda, 0, []

        def device() -> int:
            """Of the whole device. cuMemGetInfo says under `cufence run` what the program would find, not what is mapped."""
            cuda.synchronize()
            query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", f"--id=GPU-{cuda.get_device_properties(0).uuid}"]
            return int(subprocess.run(query, capture_output=True, check=True).stdout) << 20

        def look() -> None:
            if number in MEMORY_LOOKS:
                looks.append(device())

        self.torch.zeros(1, device="cuda")
        looks = [device()]
        step = importlib.import_module(name).build(self.torch, look)
        for number in range(MEMORY_STEPS):  # noqa: B007  # look() reads it
            step()
            look()
            if self.cufence:
                cuda.synchronize()
                stats = self.cufence.stats()
                coverage.append([stats["tested_places"], stats["freed_places"]])
        host = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10
        peaks = {"reserved": cuda.max_memory_reserved(), "used": cuda.max_memory_allocated()}
        return {"device": max(looks) - looks[0], **peaks, "host": host, "coverage": coverage}

    def answer(self, request: str, *words: str) -> Any:
        if request == "pin":
            few = sorted(os.sched_getaffinity(0))[: int(words[0])]
            for task in os.listdir("/proc/self/task"):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(task), few)
            return few
        if request in ("warm", "memory"):
            return getattr(self, request)(*words)
        return self.timed(request, int(words[0]))


def main() -> None:
    sys.path[:0] = [str(HERE), str(HERE / "workloads")]
    cufence = enable(sys.argv[1])
    import torch

    if not torch.cuda.is_available():
        say({"error": "torch.cuda.is_available() is False"})
        return
    bench = Bench(torch, cufence)
    say({"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "allocator": torch.cuda.memory.get_allocator_backend()})
    for line in sys.stdin:
        try:
            say(bench.answer(*line.split()))
        except Exception as error:  # this workload cannot be had under this tool; the others go on
            say({"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})


if __name__ == "__main__":
    main()
