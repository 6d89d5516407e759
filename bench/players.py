"""Players take the rounds of workloads: Torch and Micro ask processes that live on, one a tool; Whole starts a program each time."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rounds import Process, Stopped, ToolError, play_round
from tools import BASELINE, BUILD, OURS, SANITIZERS, TOOLS
from workloads_of import MODELS, WORKLOADS, Workload

if TYPE_CHECKING:
    from bench import Bench

BLOCKS = 3
BLOCK_SECONDS, BLOCK_MS = 0.03, 10  # a block of the baseline takes so long; of others at most three times as long
SLOW, SLOW_ROUNDS = 10, 3  # a tool whose step takes so many times as long has one block a round, in so many rounds
SPOILS = "graph"  # a process in which a capture has failed is of no use any more
SHOWN = ("training", "inference", "small")  # in the README; the sanitizers take them first, with --quick these alone
MODEL_TOOLS = (BASELINE, "run", "enable", "strict", "blocking")  # others run a large model where --only names them: a device has little room
WARM_SECONDS, QUICK_WARM_SECONDS = 300, 60
SHORT = "{:.5g}"


class Player:
    """Has a process for each tool. `ready` starts them at once and waits for them: then `processes` has those that could be started, and
    why others could not stands in `dead`."""

    def __init__(self, bench: Bench, tools: list[str], rounds: int | None = None) -> None:
        self.bench, self.tools, self.rounds = bench, tools, rounds or bench.rounds
        self.has_begun = False
        self.processes: dict[str, Process] = {}
        self.started: dict[str, Process] = {}
        self.dead: dict[str, str] = {}
        self.counts: dict[tuple[str, str], int] = {}
        self.slow: dict[str, set[str]] = {}

    def command(self, tool: str) -> list[str]:
        raise NotImplementedError

    def start(self, tools: list[str]) -> None:
        for tool in tools:
            try:
                self.started[tool] = Process(self.command(tool), TOOLS[tool].variables(), self.bench.is_over)
            except ToolError as error:
                self.dead[tool] = str(error)

    def ready(self) -> None:
        """Who does not greet is dead."""
        if not self.has_begun:
            self.has_begun = True
            self.start(self.tools)
        while self.started:
            tool = next(iter(self.started))
            self.bench.progress.say(f"starts {TOOLS[tool].title}")
            try:
                greeting = self.started[tool].answer()
                self.processes[tool] = self.started.pop(tool)
                self.dead.pop(tool, None)
                if "allocator" in greeting:
                    self.bench.store.data["allocators"][tool] = greeting["allocator"]
                self.check(tool, greeting)
            except ToolError as error:
                self.drop(tool, str(error))

    def check(self, tool: str, greeting: dict[str, Any]) -> None:
        """Raises ToolError where the tool does not do its work in the program."""

    def drop(self, tool: str, why: str) -> None:
        self.dead[tool] = why
        (self.started if tool in self.started else self.processes).pop(tool).close(0.1)

    def close(self) -> None:
        self.processes.update(self.started)
        self.started.clear()
        for process in self.processes.values():
            process.end()
        until = time.monotonic() + (1 if self.bench.is_over() else 10)
        for process in self.processes.values():
            process.close(max(0.05, until - time.monotonic()))
        self.processes.clear()

    def pin(self, count: int = 4) -> None:
        """All stay on the same processors: what else runs there slows every tool alike."""
        for tool in list(self.processes):
            try:
                self.processes[tool].ask(f"pin {count}")
            except ToolError as error:
                self.drop(tool, str(error))

    def skips(self, workload: Workload, tool: str) -> bool:
        if tool in SANITIZERS and workload.group == "torch" and self.bench.options.quick:
            return workload.name not in SHOWN
        return workload.name in MODELS and tool not in MODEL_TOOLS and tool not in self.bench.only

    def has_part(self, workload: Workload) -> bool:
        """Whether any tool beside the native one takes it."""
        return self.tools == [BASELINE] or any(not self.skips(workload, tool) for tool in self.tools if tool != BASELINE)

    def goal(self) -> int:
        """How many rounds are taken. Of peers that are slow on every workload alone, few."""
        return SLOW_ROUNDS if self.tools[1:] and set(self.tools) <= {BASELINE, *SANITIZERS} else self.rounds

    def taken(self, workload: Workload) -> int:
        """How many rounds there are of its tools: those of the sanitizers are rounds of their own, with the baseline."""
        own = set(self.tools) - {BASELINE} or {BASELINE}
        return sum(not own.isdisjoint(one) for one in self.row(workload)["rounds"])

    def row(self, workload: Workload) -> dict[str, Any]:
        row: dict[str, Any] = self.bench.store.row(workload.name, workload.group, workload.title)
        return row

    def forget_failures(self, row: dict[str, Any]) -> None:
        for tool in self.tools:
            row["failed"].pop(tool, None)

    def warm(self, workload: Workload) -> bool:
        """Builds the workload in every process, in the baseline's first. Returns whether rounds can be taken."""
        row = self.row(workload)
        if row["left_out"] or self.taken(workload) >= self.goal():
            return False
        self.forget_failures(row)
        self.ready()
        revived = [tool for tool in self.dead if tool not in self.processes and "with status" in self.dead[tool]]
        self.start(revived)
        self.ready()
        row["failed"].update(self.dead)
        self.bench.progress.say(f"{workload.title}: warms up")
        probes: dict[str, float] = {}
        if BASELINE in self.processes:
            self.processes[BASELINE].send(self.warming(workload))
            self.warmed(workload, BASELINE, probes)
        if BASELINE not in probes:
            row["left_out"] = row["left_out"] or row["failed"].get(BASELINE, "the baseline failed")
            return False
        others = [tool for tool in self.processes if tool != BASELINE and not self.skips(workload, tool)]
        for tool in others:
            self.processes[tool].send(self.warming(workload))
        for tool in others:
            self.warmed(workload, tool, probes)
        self.size_blocks(workload, probes)
        return True

    def warmed(self, workload: Workload, tool: str, probes: dict[str, float]) -> None:
        row = self.row(workload)
        try:
            got = self.processes[tool].answer(QUICK_WARM_SECONDS if self.bench.options.quick else WARM_SECONDS)
            if isinstance(got, dict) and "why" in got:
                row["left_out"] = got["why"]
            else:
                probes[tool] = got["probe"] if isinstance(got, dict) else got
        except ToolError as error:
            self.failed(workload, tool, error)

    def failed(self, workload: Workload, tool: str, error: ToolError) -> None:
        self.row(workload)["failed"][tool] = str(error)
        if self.processes[tool].has_ended() or "in time" in str(error) or workload.name == SPOILS:
            self.drop(tool, f"{workload.name} ended it with status: {error}")

    def size_blocks(self, workload: Workload, probes: dict[str, float]) -> None:
        native = probes[BASELINE]
        steps = max(1, round(BLOCK_SECONDS / native))
        self.slow[workload.name] = {tool for tool, probe in probes.items() if probe > SLOW * native}
        for tool, probe in probes.items():
            self.counts[workload.name, tool] = steps if probe < 3 * native else max(1, int(steps * 3 * native / probe))

    def warming(self, workload: Workload) -> str:
        raise NotImplementedError

    def seconds(self, workload: Workload, tool: str) -> float:
        raise NotImplementedError

    def block(self, workload: Workload, tool: str) -> float | None:
        if self.bench.is_over():
            raise Stopped
        if tool not in self.processes or tool in self.row(workload)["failed"]:
            return None
        try:
            return float(SHORT.format(self.seconds(workload, tool)))
        except ToolError as error:
            self.failed(workload, tool, error)
            return None

    def round(self, workload: Workload) -> None:
        row, slow = self.row(workload), self.slow[workload.name]
        had = {tool: sum(tool in one for one in row["rounds"]) for tool in slow}
        tools = [tool for tool in self.processes if (workload.name, tool) in self.counts and had.get(tool, 0) < SLOW_ROUNDS]
        taken = play_round(tools, BLOCKS, len(row["rounds"]), lambda tool: self.block(workload, tool), slow)
        if BASELINE in taken:
            row["rounds"].append(taken)
        else:
            row["left_out"] = row["failed"].get(BASELINE, "the baseline failed")


class Torch(Player):
    """Workers of bench/worker.py, or of a program that answers like them."""

    def __init__(self, bench: Bench, tools: list[str], rounds: int | None = None, program: list[str | Path] | None = None) -> None:
        self.program = program or []
        super().__init__(bench, tools, rounds)

    def check(self, tool: str, greeting: dict[str, Any]) -> None:
        """A program of C++ says the class of its allocator."""
        if tool in OURS and "cufence" not in greeting.get("class", "cufence"):
            raise ToolError(f"PyTorch allocates with {greeting['class']}, not with cufence's class")

    def command(self, tool: str) -> list[str]:
        worker = Path(__file__).resolve().with_name("worker.py")
        return TOOLS[tool].command(*(self.program or [sys.executable, worker, tool]))

    def warming(self, workload: Workload) -> str:
        return f"warm {workload.name}"

    def seconds(self, workload: Workload, tool: str) -> float:
        count = self.counts[workload.name, tool]
        return float(self.processes[tool].ask(f"{workload.name} {count}")) / count


class Micro(Player):
    """bench_micro, a process for each tool."""

    def command(self, tool: str) -> list[str]:
        return TOOLS[tool].command(BUILD / "bin" / "bench_micro", TOOLS[tool].allocator)

    def warming(self, workload: Workload) -> str:
        return f"{workload.request} 1"

    def seconds(self, workload: Workload, tool: str) -> float:
        return float(self.processes[tool].ask(f"{workload.request} {BLOCK_MS}"))


STEPS = """
import torch
assert (torch.ones(1 << 20, device="cuda") * 2).sum().item() == 2 << 20
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(512, 1024, device="cuda")
for _ in range(10):
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
"""
PROGRAMS = {"startup.import": "import torch", "startup.steps": STEPS}
REPORTED = ("SUMMARY: cufence: ", "Invalid __global__ ")


class Whole(Player):
    """A program from its start to its end, or to a fault, each time."""

    def taken(self, workload: Workload) -> int:
        return len(self.row(workload)["rounds"])

    def warm(self, workload: Workload) -> bool:
        row = self.row(workload)
        if workload.name in PROGRAMS and not self.bench.store.data["facts"].get("gpus"):
            row["left_out"] = "PyTorch cannot be imported here, or sees no GPU"
        if row["left_out"] or self.taken(workload) >= self.goal():
            return False
        self.forget_failures(row)
        self.take(workload, self.tools[0])  # file caches; the baseline sees the fault, but makes no report
        return self.tools[0] not in row["failed"]

    def goal(self) -> int:
        return (self.rounds + 1) // 2

    def take(self, workload: Workload, tool: str) -> dict[str, float]:
        """Seconds by workload: one run of bench_micro gives both of a fault's."""
        if self.bench.is_over():
            raise Stopped
        try:
            if workload.name in PROGRAMS:
                return {workload.name: self.program_seconds(tool, PROGRAMS[workload.name])}
            return self.fault_seconds(tool, workload)
        except ToolError as error:
            self.row(workload)["failed"][tool] = str(error)
            return {}

    def program_seconds(self, tool: str, code: str) -> float:
        start = time.time()
        process = Process(TOOLS[tool].command(sys.executable, "-c", code), TOOLS[tool].variables(), self.bench.is_over)
        try:
            while process.next_line(start + 300):
                pass
            if process.process.wait() != 0:
                raise ToolError(f"ended with status {process.process.returncode}: {process.tail[-1:]}")
            return time.time() - start
        finally:
            process.close(0.1)

    def fault_seconds(self, tool: str, workload: Workload) -> dict[str, float]:
        command = TOOLS[tool].command(BUILD / "bin" / "bench_micro", TOOLS[tool].allocator)
        process = Process(command, TOOLS[tool].variables(), self.bench.is_over)
        try:
            process.answer()
            process.send(f"{workload.request} 0")
            times: dict[str, float] = {}
            until = time.time() + 100
            while (line := process.next_line(until)) is not None:
                for word in ("launch", "error"):
                    if line[1].startswith(f"{word} "):
                        times[word] = float(line[1].split()[1])
                if any(words in line[1] for words in REPORTED):
                    times.setdefault("report", line[0])
            if process.process.wait() < 0:  # as a core dump ends it
                times.setdefault("error", time.time())
        finally:
            process.close(0.1)
        if "error" not in times and "report" not in times:
            raise ToolError(f"no fault was seen: {' '.join(process.tail[-1:])[-200:]}")
        own = {"error": "fault.error", "report": "fault.report"} if workload.name != "fault.full" else {"report": "fault.full"}
        return {name: times[word] - times["launch"] for word, name in own.items() if word in times}

    def round(self, workload: Workload) -> None:
        taken: dict[str, dict[str, list[float]]] = {}
        row = self.row(workload)
        at = len(row["rounds"]) % len(self.tools)
        for tool in self.tools[at:] + self.tools[:at]:
            for name, seconds in ({} if tool in row["failed"] else self.take(workload, tool)).items():
                taken.setdefault(name, {})[tool] = [float(SHORT.format(seconds))]
        for one in WORKLOADS:
            if one.name in taken:
                self.row(one)["rounds"].append(taken[one.name])
        if workload.name not in taken:
            row["left_out"] = "no tool gives it"
