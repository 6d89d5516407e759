"""What `./dev bench` measures, by group. PyTorch's workloads are the files of bench/workloads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GROUPS = ("micro", "fault", "found", "memory", "torch")
FOLDER = Path(__file__).resolve().parent / "workloads"
ORDER = ("training", "inference", "small", "gpt2", "resnet50", "generation", "graph", "compiled", "aoti", "convolution", "fsdp")
MODELS = ("gpt2", "resnet50")  # memory is measured, too; large, and slow under a sanitizer


@dataclass(frozen=True)
class Workload:
    name: str  # NAME.N where it is one of a scale
    group: str
    title: str
    request: str = ""  # to bench_micro
    is_quick: bool = True  # taken with --quick


def _title(name: str) -> str:
    found = re.search(r'^TITLE = "(.*)"$', (FOLDER / f"{name}.py").read_text(), re.M)
    assert found, name
    return found[1]


def _scale(name: str, title: str, values: list[int], quick: tuple[int, ...]) -> list[Workload]:
    return [Workload(f"{name}.{value}", "micro", title.format(f"{value:,}"), f"{name} {value}", value in quick) for value in values]


WORKLOADS = [
    *_scale("allocate", "allocate and free, threads: {}", [1, 2, 4, 8, 16, 32, 64], (1, 8, 64)),
    *_scale("launch", "a launch, threads: {}", [1, 4, 16], (1, 4)),
    Workload("wait.1", "micro", "a wait for a stream whose work is done", "wait 1"),
    Workload("fresh.2097152", "micro", "an allocation of 2 MiB from the driver", "fresh 2097152"),
    Workload("fresh.536870912", "micro", "an allocation of 512 MiB from the driver", "fresh 536870912", False),
    *_scale("live", "replace one of {} live buffers", [10**power for power in range(2, 7)], (100, 10_000)),
    Workload("fault.error", "fault", "a fault, to the program's error", "fault 1"),
    Workload("fault.report", "fault", "a fault, to the last line of its report", "fault 1"),
    Workload("startup.import", "fault", "python -c 'import torch'", is_quick=False),
    Workload("fault.full", "fault", "a fault on a full device, to the last line of its report", "fault 264", False),
    Workload("startup.steps", "fault", "a program of ten training steps", is_quick=False),
    *(Workload(name, "torch", _title(name), is_quick=name not in MODELS) for name in ORDER),
]
