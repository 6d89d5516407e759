"""Times a training step, an inference step and a loop of small operations of PyTorch under cufence against the native allocator,
in alternating pairs.

    python3 bench/torch_step.py                                    everything, about 45 s a back end on an H100
    python3 bench/torch_step.py --backends cufence --pairs 41 --json step.json
    python3 bench/torch_step.py --backends run --baseline run_no_slack    what slack=on adds
    python3 bench/plot.py step.json step.png
    python3 bench/torch_step.py --backends cufence run cufence_strict sanitizer --json tests/gpu/results/cost.json    the table in README

With cufence.enable() and default options (back end `cufence`), it also says after how many steps of each workload a buffer of
every place of allocation had been retired (uaf=adaptive), counted from the first step of a process that does nothing else.

The native allocator and the back end that it is compared with live in two processes at once, both warm, and take turns: a
block of steps here, a block of steps there, so that a pair is taken within a fraction of a second and what else the machine does
meets both. Only one of them works at a time; a step that is not timed precedes each block, as the GPU and the CPU's caches have
served the other process. Each pair gives one ratio; the table shows their median, smallest and largest. Many short blocks say more
than few long ones: what disturbs a shared machine lasts longer than a step.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MARK = "step "  # what a worker says to its parent; anything else on its stdout is passed on to stderr
ANSWER_SECONDS = 180


@dataclass(frozen=True)
class Backend:
    """A way for PyTorch to get memory."""

    title: str
    environment: dict[str, str]
    options: dict[str, str] | None  # of cufence.enable(); None: without cufence
    is_slow: bool = False  # needs fewer pairs: its ratio is far from 1
    launcher: tuple[str, ...] = ()  # the command that starts the interpreter


RUN = (str(ROOT / "build" / "bin" / "cufence"), "run")
TRACE = str(ROOT / "build" / "bench-trace.%p.jsonl")
BACKENDS = {
    "native": Backend("native allocator", {}, None),
    "run": Backend("`cufence run` (as backend:cufence), default options, dumps armed", {}, None, launcher=(*RUN, "--")),
    "cufence": Backend("cufence.enable(), default options, dumps armed", {}, {}),
    "run_off": Backend("`cufence run --set uaf=off`", {}, None, launcher=(*RUN, "--set", "uaf=off", "--")),
    "cufence_off": Backend("cufence.enable(uaf='off')", {}, {"uaf": "off"}),
    "run_strict": Backend("`cufence run --set uaf=strict`", {}, None, launcher=(*RUN, "--set", "uaf=strict", "--")),
    "run_no_slack": Backend("`cufence run --set slack=off`", {}, None, launcher=(*RUN, "--set", "slack=off", "--")),
    "run_trace": Backend("`cufence run --trace FILE`", {}, None, True, launcher=(*RUN, "--trace", TRACE, "--")),
    "cufence_no_slack": Backend("cufence.enable(slack='off')", {}, {"slack": "off"}),
    "cufence_strict": Backend("cufence.enable(uaf='strict')", {}, {"uaf": "strict"}),
    "cufence_strict_no_slack": Backend("cufence.enable(uaf='strict', slack='off')", {}, {"uaf": "strict", "slack": "off"}),
    "async": Backend(
        "PyTorch's backend:cudaMallocAsync, without cufence", {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, None
    ),
    "no_caching": Backend("PYTORCH_NO_CUDA_MEMORY_CACHING=1", {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, None, True),
    "no_caching_blocking": Backend(
        "the same and CUDA_LAUNCH_BLOCKING=1",
        {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUDA_LAUNCH_BLOCKING": "1"},
        None,
        True,
    ),
    "sanitizer": Backend(
        "compute-sanitizer memcheck with PYTORCH_NO_CUDA_MEMORY_CACHING=1",
        {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        None,
        True,
        launcher=("compute-sanitizer", "--tool", "memcheck", "--target-processes", "all"),
    ),
}
WORKLOADS = {"training": "training step", "inference": "inference step", "small": "100 small operations"}
CPUS = 4
SHORTER = {"training": 1, "inference": 5, "small": 10}  # about how much shorter a step is than a training step


# The worker: one process, one back end, all workloads.


def build_steps() -> dict[str, Callable[[], Any]]:
    """One step of each workload: a transformer encoder of 6 layers, its host as busy as its GPU; and a loop bound by its launches,
    with an allocation for each."""
    import torch

    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randn(16, 128, 512, device="cuda")
    target = torch.randn(16, 128, 512, device="cuda")

    def training() -> None:
        model.train()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(data), target)
        loss.backward()
        optimizer.step()

    def inference() -> None:
        model.eval()
        with torch.inference_mode():
            model(data)

    few = torch.randn(1000, device="cuda")

    def small() -> None:
        value = few
        for _ in range(50):
            value = value * 0.5
            value = value + few

    return {"training": training, "inference": inference, "small": small}


def say(value: Any) -> None:
    print(MARK + json.dumps(value), flush=True)


def coverage(cufence: Any, step: Callable[[], Any], most: int) -> list[list[int]]:
    """After each step: how many places of allocation had a buffer retired, and how many have freed one."""
    import torch

    seen = []
    for _ in range(most):
        step()
        torch.cuda.synchronize()
        stats = cufence.stats()
        seen.append([stats["tested_places"], stats["freed_places"]])
    return seen


def work(backend: Backend) -> None:
    """Answers the parent's requests: a line `WORKLOAD STEPS` gives the seconds that the steps took."""
    cufence: Any = None
    if backend.options is not None:
        import cufence

        cufence.enable(**backend.options)
    import gc

    import torch

    if not torch.cuda.is_available():
        say({"error": "torch.cuda.is_available() is False"})
        return
    steps = build_steps()
    say({"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda,
         "allocator": torch.cuda.memory.get_allocator_backend()})  # fmt: skip
    for line in sys.stdin:
        request, _, count = line.strip().partition(" ")
        if request == "figures":
            say({"stats": cufence.stats(), "faults": cufence.fault_count()} if cufence else {})
            continue
        if request == "coverage":
            workload, _, most = count.partition(" ")
            say(coverage(cufence, steps[workload], int(most)))
            continue
        step = steps[request]
        gc.collect()
        gc.freeze()  # what lives now lives on: the next collection does not look at it
        step()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(int(count)):
            step()
        torch.cuda.synchronize()
        say(time.perf_counter() - start)


# The parent.


class WorkerError(RuntimeError):
    """A worker has ended, or does not answer."""


class Worker:
    """A process that holds one back end and works when it is asked to."""

    def __init__(self, name: str) -> None:
        self.name = name
        environment = dict(os.environ)
        for unwanted in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING",
                         "CUDA_LAUNCH_BLOCKING", "CUFENCE_OPTIONS"):  # fmt: skip
            environment.pop(unwanted, None)
        environment.update(BACKENDS[name].environment)
        package = str(ROOT / "allocator" / "torch")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
        environment.setdefault("CUFENCE_LIBRARY", str(ROOT / "build" / "lib" / "libcufence.so"))
        self.process = subprocess.Popen(
            [*BACKENDS[name].launcher, sys.executable, str(Path(__file__).resolve()), "--worker", name],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.answers: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MARK):
                self.answers.put(json.loads(line[len(MARK) :]))
            else:
                sys.stderr.write(f"{self.name}: {line}")
        self.answers.put(None)

    def answer(self) -> Any:
        try:
            value = self.answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise WorkerError(f"{self.name} does not answer within {ANSWER_SECONDS} s") from None
        if value is None:
            raise WorkerError(f"{self.name} has ended with status {self.process.wait()}")
        if isinstance(value, dict) and "error" in value:
            raise WorkerError(f"{self.name}: {value['error']}")
        return value

    def ask(self, request: str) -> Any:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise WorkerError(f"{self.name} has ended with status {self.process.wait()}") from None
        return self.answer()

    def seconds_a_step(self, workload: str, steps: int) -> float:
        return float(self.ask(f"{workload} {steps}")) / steps

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Comparison:
    """One back end against the native allocator, or what --baseline names, in one workload. Times are milliseconds a step."""

    workload: str
    backend: str
    title: str
    native_ms: float
    backend_ms: float
    ratio: float
    ratio_min: float
    ratio_max: float
    fastest: float  # of the fastest blocks: what else runs on the machine only adds time
    ratios: list[float]
    steps: int


def compare(native: Worker, other: Worker, workload: str, pairs: int, steps: int) -> Comparison:
    """Takes the pairs; who comes first changes with each."""
    for worker in (native, other):
        worker.seconds_a_step(workload, steps)  # warm
    natives: list[float] = []
    others: list[float] = []
    for number in range(pairs):
        for worker in (native, other) if number % 2 == 0 else (other, native):
            (natives if worker is native else others).append(worker.seconds_a_step(workload, steps))
    ratios = [b / a for a, b in zip(natives, others)]
    return Comparison(
        workload, other.name, BACKENDS[other.name].title, 1e3 * statistics.median(natives), 1e3 * statistics.median(others),
        statistics.median(ratios), min(ratios), max(ratios), min(others) / min(natives), ratios, steps,
    )  # fmt: skip


def table(comparisons: list[Comparison], facts: dict[str, Any]) -> str:
    """The Markdown table."""
    lines = [
        f"{facts['gpu']}, PyTorch {facts['torch']}, driver {facts['driver']}, {facts['date']}.",
        "",
        f"| workload | back end | ms a step | {facts['baseline']}, ms | ratio: median | smallest | largest | of the fastest blocks | pairs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in comparisons:
        lines.append(
            f"| {WORKLOADS[row.workload]} | {row.title} | {row.backend_ms:.2f} | {row.native_ms:.2f} | {row.ratio:.3f} "
            f"| {row.ratio_min:.3f} | {row.ratio_max:.3f} | {row.fastest:.3f} | {len(row.ratios)} |"
        )
    for row in facts.get("coverage", []):
        after = f"after {row['steps']} steps" if row["steps"] else f"not all within {len(row['after_each_step'])} steps"
        lines += ["", f"{WORKLOADS[row['workload']]}: {row['tested']} of {row['places']} places of allocation tested for use after free, {after}."]
    return "\n".join(lines) + "\n"


def driver_version() -> str:
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def cover(workload: str, most: int) -> dict[str, Any]:
    """The first step after which every place had its turn (0: none), in a process of its own."""
    worker = Worker("cufence")
    try:
        worker.answer()
        seen = worker.ask(f"coverage {workload} {most}")
        done = next((number for number, (tested, places) in enumerate(seen, 1) if places == seen[-1][1] and tested == places), 0)
        return {"workload": workload, "steps": done, "places": seen[-1][1], "tested": seen[-1][0], "after_each_step": seen}
    finally:
        worker.close()


def cover_all(options: argparse.Namespace, facts: dict[str, Any]) -> None:
    facts["coverage"] = [cover(workload, 20 * SHORTER[workload]) for workload in options.workloads]
    for row in facts["coverage"]:
        after = f"after {row['steps']} steps" if row["steps"] else f"not all within {len(row['after_each_step'])} steps"
        print(f"{row['workload']:9} use after free: {row['tested']} of {row['places']} places tested, {after}", file=sys.stderr, flush=True)


def stay_on(count: int) -> None:
    """Keeps all processes on the same CPUs: what else runs there slows native and guarded steps alike."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def measure(options: argparse.Namespace) -> tuple[list[Comparison], dict[str, Any]]:
    stay_on(CPUS)
    native = Worker(options.baseline)
    open_workers = [native]
    try:
        facts = native.answer()
        facts.update(driver=driver_version(), date=f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}", figures={}, baseline=options.baseline)
        comparisons = []
        for name in options.backends:
            other = Worker(name)
            open_workers.append(other)
            other.answer()
            for workload in options.workloads:
                steps = options.steps * SHORTER[workload]
                pairs = max(3, options.pairs // 4) if BACKENDS[name].is_slow else options.pairs
                row = compare(native, other, workload, pairs, steps)
                comparisons.append(row)
                print(f"{workload:9} {name:20} {row.backend_ms:8.2f} ms, {options.baseline} {row.native_ms:7.2f} ms, ratio {row.ratio:.3f} "
                      f"({row.ratio_min:.3f} .. {row.ratio_max:.3f}, fastest {row.fastest:.3f})", file=sys.stderr, flush=True)  # fmt: skip
            facts["figures"][name] = other.ask("figures")
            other.close()
            open_workers.remove(other)
        return comparisons, facts
    finally:
        for worker in open_workers:
            worker.close()


def why_not() -> str | None:
    """Why nothing can be measured here."""
    code = "import torch; print('gpu' if torch.cuda.is_available() else 'none')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        return "PyTorch cannot be imported"
    return None if "gpu" in done.stdout.split() else "PyTorch sees no GPU"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    others = [name for name in BACKENDS if name != "native"]
    parser.add_argument("--backends", nargs="+", choices=others, default=others)
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--baseline", choices=list(BACKENDS), default="native", help="what they are compared with")
    parser.add_argument("--pairs", type=int, default=151, help="pairs for each ratio (a quarter for the uncached back ends)")
    parser.add_argument("--steps", type=int, default=2, help="training steps in a block; five times as many of inference, ten of the small loop")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--markdown", type=Path, help="write the table here; it is printed in any case")
    parser.add_argument("--worker", choices=list(BACKENDS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pairs < 1 or options.steps < 1:
        parser.error("--pairs and --steps are at least 1")
    if options.worker:
        work(BACKENDS[options.worker])
        return 0
    reason = why_not()
    if reason:
        print(f"SKIPPED: {reason}")
        return 0
    try:
        comparisons, facts = measure(options)
        if "cufence" in options.backends:
            cover_all(options, facts)
    except WorkerError as error:
        print(f"torch_step: {error}", file=sys.stderr)
        return 1
    text = table(comparisons, facts)
    print(text, end="")
    if options.markdown:
        options.markdown.write_text(text)
    if options.json:
        options.json.write_text(json.dumps({"facts": facts, "rows": [asdict(row) for row in comparisons]}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
