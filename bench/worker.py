"""A process that holds PyTorch under one tool and takes steps of the workloads as it is asked to: worker.py TOOL.

Each line on stdin is a request, each answer a line on stdout that begins with MARK:
  warm WORKLOAD        builds it and takes two steps: {"probe": seconds of another}, or {"why": "..."} where it cannot be had here
  WORKLOAD STEPS       seconds of STEPS steps, after one that is not timed
  memory MODEL         {"device": bytes, "host": bytes} that a few steps of it take at most, in a fresh process
  coverage STEPS       uaf=adaptive after each training step: [places tested, places that have freed]
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

    def memory(self, name: str) -> dict[str, int]:
        from models import MODELS

        def used() -> int:
            """Of the whole device. cuMemGetInfo says under `cufence run` what the program would find, not what is mapped."""
            self.torch.cuda.synchronize()
            query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", f"--id=GPU-{properties.uuid}"]
            return int(subprocess.run(query, capture_output=True, check=True).stdout) << 20

        properties = self.torch.cuda.get_device_properties(0)
        self.torch.zeros(1, device="cuda")
        before, most = used(), 0
        build, steps = MODELS[name]
        forward, optimizer = build(self.torch)
        for _ in range(steps):
            loss = forward()
            most = max(most, used() - before)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            most = max(most, used() - before)
        return {"device": most, "host": int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10}

    def coverage(self, steps: int) -> list[list[int]]:
        seen, step = [], self.build("training")
        for _ in range(steps):
            step()
            self.torch.cuda.synchronize()
            stats = self.cufence.stats()
            seen.append([stats["tested_places"], stats["freed_places"]])
        return seen

    def answer(self, request: str, *words: str) -> Any:
        if request == "pin":
            few = sorted(os.sched_getaffinity(0))[: int(words[0])]
            for task in os.listdir("/proc/self/task"):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(task), few)
            return few
        if request == "coverage":
            return self.coverage(int(words[0]))
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
