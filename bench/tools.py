"""The tools that `./dev bench` compares: how each is put under a program. The first is what all others are compared with."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("CUFENCE_BUILD") or ROOT / "build")
UNWANTED = ("CUFENCE_", "PYTORCH_", "LD_PRELOAD", "CUDA_LAUNCH_BLOCKING", "CUDA_ENABLE_COREDUMP", "CUDA_COREDUMP")


@dataclass(frozen=True)
class Tool:
    title: str
    launcher: tuple[str, ...] = ()  # what starts the program
    environment: dict[str, str] = field(default_factory=dict)
    enable: dict[str, str] | None = None  # the program calls cufence.enable() with these options
    allocator: str = "async"  # how bench_micro gets memory
    runs: str = "torch micro whole"  # kinds of programs that it can be put under
    is_extra: bool = False  # measured where --only names it

    def command(self, *program: str | Path) -> list[str]:
        return [*self.launcher, *map(str, program)]

    def variables(self, **more: str) -> dict[str, str]:
        """The environment: the caller's, less what would change a program."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}
        if os.environ.get("CUFENCE_DRIVER") == "sim":  # tests of this harness
            kept.update(CUFENCE_DRIVER="sim", LD_LIBRARY_PATH=str(BUILD / "tests" / "libcuda"))
        package = str(ROOT / "allocator" / "torch")
        kept["PYTHONPATH"] = os.pathsep.join(filter(None, [package, kept.get("PYTHONPATH")]))
        kept["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # no processes of the compiler beside those that are measured
        return {**kept, "CUFENCE_LIBRARY": str(BUILD / "lib" / "libcufence.so"), **self.environment, **more}


def _run(*settings: str) -> tuple[str, ...]:
    return (str(BUILD / "bin" / "cufence"), "run", *settings, "--")


_MEMCHECK = ("compute-sanitizer", "--tool", "memcheck", "--target-processes", "all")
_UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
_DUMP = {
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
    "CUDA_COREDUMP_FILE": "/tmp/cufence-bench.%p.core",
    "CUDA_COREDUMP_GENERATION_FLAGS": "skip_global_memory,skip_shared_memory,skip_local_memory",
}
_EVERY_VALUE = "*=/dev/null"

TOOLS = {
    "native": Tool("native"),
    "async": Tool("PyTorch's cudaMallocAsync back end", (), {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, runs="torch"),
    "uncached": Tool("PYTORCH_NO_CUDA_MEMORY_CACHING=1", (), _UNCACHED, runs="torch"),
    "blocking": Tool("no caching, CUDA_LAUNCH_BLOCKING=1", (), {**_UNCACHED, "CUDA_LAUNCH_BLOCKING": "1"}, runs="torch"),
    "dumps": Tool("core dumps alone", (), _DUMP),
    "memcheck": Tool("compute-sanitizer memcheck", _MEMCHECK),
    "padding": Tool("memcheck --padding 64", (*_MEMCHECK, "--padding", "64"), runs="torch"),
    "memcheck_uncached": Tool("memcheck, no caching", _MEMCHECK, _UNCACHED, runs="torch"),
    "run": Tool("cufence run", _run()),
    "enable": Tool("cufence.enable()", enable={}, runs="torch"),
    "off": Tool("cufence run, uaf=off", _run("--set", "uaf=off")),
    "strict": Tool("cufence run, uaf=strict", _run("--set", "uaf=strict")),
    "no_slack": Tool("cufence run, slack=off", _run("--set", "slack=off")),
    "no_stacks": Tool("cufence run, stacks=off", _run("--set", "stacks=off"), is_extra=True),
    "no_record": Tool("cufence run, no launches on record", _run("--set", "remember=65536/0"), is_extra=True),
    "driver": Tool("cuMemAlloc", allocator="driver", runs="micro"),
    "api": Tool("cufence, C API", allocator="cufence", runs="micro"),
    "streams": Tool("cufence run, streams=on", _run("--set", "streams=on"), is_extra=True),
    "stuck": Tool("cufence run, stuck=60", _run("--set", "stuck=60"), is_extra=True),
    "values_none": Tool("values= of kernels that there are none of", _run("--values", "no_such_kernel"), runs="torch", is_extra=True),
    "values_one": Tool("values=#1000, one launch", _run("--values", "#1000=/dev/null"), runs="torch", is_extra=True),
    "values_softmax": Tool("values=*softmax*", _run("--values", "*softmax*=/dev/null"), runs="torch", is_extra=True),
    "values_all": Tool("values=*, every launch", _run("--values", _EVERY_VALUE), runs="torch", is_extra=True),
    "nan": Tool("nan=report", _run("--nan", "report"), runs="torch", is_extra=True),
    "nan_10": Tool("nan=report/10", _run("--nan", "report/10"), runs="torch", is_extra=True),
    "nan_stop": Tool("nan=stop", _run("--nan", "stop"), runs="torch", is_extra=True),
    "packed": Tool("cufence run, small=pack", _run("--set", "small=pack"), runs="torch", is_extra=True),
}
BASELINE = next(iter(TOOLS))
OURS = tuple(name for name, tool in TOOLS.items() if tool.enable is not None or tool.allocator == "cufence" or tool.launcher[1:2] == ("run",))
SANITIZERS = tuple(name for name, tool in TOOLS.items() if tool.launcher[:1] == _MEMCHECK[:1])
