"""Measures cufence and what people use instead, on the same work in the same rounds: `./dev bench`. Needs a GPU.

    ./dev bench                                     everything; what matters most comes first, so that --limit 520 has it
    ./dev bench --quick                             within five minutes: fewer rounds, threads, sizes and bugs
    ./dev bench --only training --only run          that workload, and the tool `run` beside the native one
    ./dev bench --json F --plots DIR                F is written after every round, and goes on where it stops
    ./dev bench --plots DIR --json F --only none    only draws what F has

NAME is a group (micro, fault, found, memory, torch), a workload or a tool; --list shows them. How rounds are compared stands in
bench/rounds.py, what F holds in bench/store.py. Ctrl-C keeps what is done. Status: 0, 1 if a workload failed natively or under
cufence, 2 without a GPU or a build, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import found
from players import SHOWN, SPOILS, Micro, Player, Torch, Whole
from rounds import Stopped, ToolError
from store import Store, report
from tools import BASELINE, BUILD, SANITIZERS, TOOLS
from workloads_of import GROUPS, MODELS, WORKLOADS, Workload

QUICK_SECONDS = 285
ROUNDS, FEW_ROUNDS = 15, 5  # of cufence as most use it and of what --only names; of all else
FIRST = ("run", "enable")
MEMORY_FIRST = (BASELINE, *FIRST, "packed")
ALIKE = ("async", "off", "no_slack")  # find what others do
LATE = ("live.1000000",)  # takes minutes
JOBS = 10  # bugs at a time: they are not timed
PROBE = """
import json, sys
facts = {"python": sys.version.split()[0]}
try:
    import torch
    facts.update(torch=torch.__version__, cuda=torch.version.cuda, gpus=torch.cuda.device_count())
    import triton
    facts["triton"] = triton.__version__
except ImportError:
    pass
print(json.dumps(facts))
"""


class Progress:
    """A line on the terminal that says what goes on; where there is no terminal, a line every ten seconds."""

    def __init__(self) -> None:
        self.began, self.last, self.is_terminal = time.time(), 0.0, sys.stderr.isatty()

    def say(self, text: str, is_done: bool = False) -> None:
        line = f"{time.time() - self.began:4.0f} s  {text}"
        if self.is_terminal:
            print(f"\r{line[:100]:100}", end="\n" if is_done else "", file=sys.stderr, flush=True)
        elif is_done or time.time() - self.last > 10:
            print(line, file=sys.stderr, flush=True)
            self.last = time.time()


class Bench:
    """What all parts share: what is asked for, until when, and where results go."""

    def __init__(self, options: argparse.Namespace, store: Store, progress: Progress) -> None:
        self.options, self.store, self.progress = options, store, progress
        self.is_stopped = False
        self.until = progress.began + options.limit if options.limit else float("inf")
        self.only = set(options.only)
        self.rounds = FEW_ROUNDS if options.quick else ROUNDS
        self.few_rounds = self.rounds if self.only else FEW_ROUNDS

    def is_over(self) -> bool:
        return self.is_stopped or time.time() > self.until

    def tools(self, kind: str) -> list[str]:
        """The tools for a kind of program: those that --only names, and the baseline."""
        named = self.only & set(TOOLS)
        return [name for name, tool in TOOLS.items()
                if kind in tool.runs.split() and (name in named or name == BASELINE if named else not tool.is_extra)]  # fmt: skip

    def workloads(self, group: str) -> list[Workload]:
        named = self.only - set(TOOLS)
        return [one for one in WORKLOADS if one.group == group and (one.is_quick or not self.options.quick)
                and (not named or {one.name, one.name.split(".")[0], group} & named)]  # fmt: skip

    def has(self, group: str) -> bool:
        named = self.only - set(TOOLS)
        return not named or group in named


def play(bench: Bench, pairs: list[tuple[Player, Workload]]) -> None:
    """Rounds of each workload in turn, until each has as many as it should have."""
    for number in range(bench.rounds):
        for player, workload in pairs:
            if player.taken(workload) > number or bench.store.row(workload.name)["left_out"] or number >= player.goal():
                continue
            bench.progress.say(f"round {number + 1} of {player.goal()}: {workload.title}")
            player.round(workload)
            bench.store.save()


def run_micro(bench: Bench, wanted: list[Workload]) -> None:
    if not wanted:
        return
    player = Micro(bench, bench.tools("micro"), bench.few_rounds)
    try:
        for workload in wanted:  # one after the other: live buffers stay between the rounds of one
            if player.warm(workload):
                play(bench, [(player, workload)])
    finally:
        player.close()


def run_fault(bench: Bench) -> None:
    player = Whole(bench, [name for name in bench.tools("whole") if name not in ("off", "strict", "no_slack")], bench.few_rounds)
    for workload in bench.workloads("fault"):
        if player.warm(workload):
            play(bench, [(player, workload)])


def run_found(bench: Bench) -> None:
    """Which tool finds which bug. Processes go on while others start; a driver may lose a fault among several: tried again alone."""
    if not bench.has("found"):
        return
    bugs = list(found.BUGS)[: found.QUICK if bench.options.quick else None]
    tools = [tool for tool in bench.tools("torch") if tool not in ALIKE or tool in bench.only]
    todo = [(bug, tool) for tool in tools for bug in bugs if tool not in bench.store.data["found"].get(bug, {})]

    def keep(bug: str, tool: str, word: str) -> None:
        bench.store.data["found"].setdefault(bug, {})[tool] = word
        bench.store.save()
        bench.progress.say(f"{bug} under {TOOLS[tool].title}: {word}")

    late = []
    for pair, word in found.try_all(todo, JOBS, bench.is_over):
        late += [pair] if word.startswith("not finished") else []
        keep(*pair, word)
    for bug, tool in late:
        keep(bug, tool, found.try_bug(tool, bug, bench.is_over))


def take_memory(bench: Bench, model: str, tool: str, player: Torch) -> None:
    bench.progress.say(f"memory of {model} under {TOOLS[tool].title}")
    try:
        taken = player.processes[tool].ask(f"memory {model}")
        coverage = taken.pop("coverage")
        bench.store.data["coverage"] = bench.store.data["coverage"] or coverage
        bench.store.data["memory"][model][tool] = taken
    except ToolError as error:
        bench.progress.say(f"memory of {model} under {TOOLS[tool].title}: {error}", True)
    player.processes.pop(tool).close()
    bench.store.save()


def run_memory(bench: Bench, models: list[str], tools: list[str]) -> None:
    """One tool after the other: a figure is the device's. Each in a fresh process, which ends before the next is asked."""
    for model in models:
        taken = bench.store.data["memory"].setdefault(model, {})
        player = Torch(bench, [tool for tool in tools if tool not in taken])
        try:
            player.ready()
            for tool in list(player.processes):
                take_memory(bench, model, tool, player)
        finally:
            player.close()


def warm_all(player: Player, wanted: list[Workload]) -> list[tuple[Player, Workload]]:
    pairs = [(player, one) for one in sorted(wanted, key=lambda one: one.name != SPOILS) if player.warm(one)]
    player.pin()
    return pairs


def run_team(bench: Bench, tools: list[str], wanted: list[Workload], rounds: int, aoti: subprocess.Popen[str] | None) -> None:
    """Rounds of tools whose processes live at the same time, the native one among them."""
    players: list[Player] = [Torch(bench, tools, rounds)]
    try:
        pairs = warm_all(players[0], [one for one in wanted if one.name != "aoti" and players[0].has_part(one)])
        for workload in wanted:
            if workload.name == "aoti" and aoti:
                players.append(aoti_player(bench, workload, aoti, tools, rounds))
                pairs += warm_all(players[-1], [workload])
        play(bench, pairs)
    finally:
        for player in players:
            player.close()


AOTI = BUILD / "bench-aoti"


def start_aoti(bench: Bench) -> subprocess.Popen[str] | None:
    """Makes the program and its model meanwhile."""
    if not any(workload.name == "aoti" for workload in bench.workloads("torch")):
        return None
    source = Path(__file__).resolve().parent / "workloads" / "aoti.py"
    command = [sys.executable, str(source), str(AOTI)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                            env=TOOLS[BASELINE].variables())  # fmt: skip


def aoti_player(bench: Bench, workload: Workload, build: subprocess.Popen[str], tools: list[str], rounds: int) -> Player:
    bench.progress.say("waits for the program of AOTInductor")
    while build.poll() is None:
        if bench.is_over():
            raise Stopped
        time.sleep(0.1)
    row = bench.store.row(workload.name, workload.group, workload.title)
    if build.returncode and not row["left_out"]:
        said = build.stdout.read().strip() if build.stdout else ""
        row["left_out"] = f"cannot be built: {said.splitlines()[-1][-200:] if said else build.returncode}"
    tools = [name for name in tools if TOOLS[name].enable is None]
    return Torch(bench, [] if row["left_out"] else tools, rounds, [AOTI / "aoti", AOTI / "perceptron.pt2"])


def facts_here() -> dict[str, Any]:
    """Of this machine. Uses a process of its own, so that this one never starts CUDA."""
    if os.environ.get("CUFENCE_DRIVER") == "sim":
        facts: dict[str, Any] = {"gpu": "cufence simulated device", "driver": "simulated"}
    else:
        try:
            query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
            first = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
        except (OSError, subprocess.CalledProcessError, IndexError):
            return {}
        facts = dict(zip(("gpu", "driver"), (part.strip() for part in first.split(",")), strict=True))
    probed = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False, env=TOOLS[BASELINE].variables())
    facts.update(json.loads(probed.stdout or "{}"))
    version = subprocess.run([BUILD / "bin" / "cufence", "--version"], capture_output=True, text=True, check=False).stdout.split()
    today = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}"
    return {**facts, "cufence": version[-1] if version else None, "processors": os.cpu_count(), "date": today}


def teams(bench: Bench) -> tuple[list[str], list[str], list[str]]:
    """Which tools play together: cufence as most use it, all others but the sanitizers, and these, which start slowly. Those that
    --only names are in the first."""
    tools = [tool for tool in bench.tools("torch") if tool != BASELINE]
    slow = [tool for tool in tools if tool in SANITIZERS]
    first = [tool for tool in tools if tool not in slow and (tool in FIRST or bench.only & set(TOOLS))]
    rest = [tool for tool in tools if tool not in (*first, *slow)]
    return first, rest, slow


def parts(bench: Bench, aoti: subprocess.Popen[str] | None) -> Iterator[tuple[str, Callable[[], None]]]:
    """What is measured, in this order; nothing else runs beside it."""
    first, rest, slow = teams(bench)
    wanted, micro = bench.workloads("torch"), bench.workloads("micro")
    shown = [one for one in wanted if one.name in SHOWN]
    models = list(MODELS)[: 1 if bench.options.quick else None] if bench.has("memory") else []
    all_tools = bench.tools("torch")
    early = all_tools if bench.only & set(TOOLS) else [*MEMORY_FIRST]

    def team(tools: list[str], workloads: list[Workload], rounds: int) -> Callable[[], None]:
        return lambda: run_team(bench, [BASELINE, *tools], workloads, rounds, aoti)

    if wanted and (first or not slow):
        yield "PyTorch", team(first, wanted, bench.rounds)
    yield "memory", lambda: run_memory(bench, models, early)
    if wanted and rest:
        yield "PyTorch under other tools", team(rest, wanted, bench.few_rounds)
    if shown and slow:
        yield "sanitizers", team(slow, shown, bench.few_rounds)
    yield "bugs", lambda: run_found(bench)
    yield "single calls", lambda: run_micro(bench, [one for one in micro if one.name not in LATE])
    yield "faults and starts", lambda: run_fault(bench)
    if wanted and slow:
        yield "sanitizers on the rest", team(slow, [one for one in wanted if one.name not in MODELS or one.name in bench.only], bench.few_rounds)
    yield "memory under other tools", lambda: run_memory(bench, models, [tool for tool in all_tools if tool not in SANITIZERS])
    yield "many live buffers", lambda: run_micro(bench, [one for one in micro if one.name in LATE])


WITHOUT_TORCH = ("single calls", "faults and starts", "many live buffers")


def run_all(bench: Bench) -> str | None:
    """Returns why it ended early."""
    has_torch = bool(bench.store.data["facts"].get("gpus"))
    for tool in SANITIZERS:
        if not shutil.which(TOOLS[tool].launcher[0]):
            bench.progress.say(f"{TOOLS[tool].title}: there is no {TOOLS[tool].launcher[0]} here", True)
    if not has_torch and bench.workloads("torch"):
        bench.progress.say("PyTorch's workloads are left out: it cannot be imported here, or sees no GPU", True)
    for workload in bench.workloads("torch") if has_torch else []:  # in this order
        row = bench.store.row(workload.name, workload.group, workload.title)
        if workload.name == "fsdp" and bench.store.data["facts"]["gpus"] < 2:
            row["left_out"] = "needs two GPUs, and there is one"
    aoti = start_aoti(bench) if has_torch else None
    try:
        for title, part in parts(bench, aoti):
            if has_torch or title in WITHOUT_TORCH:
                bench.progress.say(title, True)
                part()
        return None
    except Stopped:
        return "stopped" if bench.is_stopped else f"the {bench.options.limit:.0f} s are over"
    finally:
        if aoti and aoti.poll() is None:
            os.killpg(aoti.pid, signal.SIGKILL)
        found.remove_dumps()
        bench.store.save()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="within five minutes")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this group, workload or tool; may be repeated")
    parser.add_argument("--json", type=Path, metavar="F", help="write the results here, and go on with those that are there")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="draw them as SVG and PNG")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="end after so long, with what is done")
    parser.add_argument("--list", action="store_true", help="print the groups, workloads and tools")
    options = parser.parse_args()
    known = {"none", *GROUPS, *TOOLS, *(part for one in WORKLOADS for part in (one.name, one.name.split(".")[0]))}
    for name in options.only:
        if name not in known:
            parser.error(f"--only {name}: there is no such group, workload or tool; --list shows them")
    if options.quick and not options.limit:
        options.limit = QUICK_SECONDS
    return options


def list_all() -> None:
    for group in GROUPS:
        print(group, *(f"  {one.name:16} {one.title}" for one in WORKLOADS if one.group == group), sep="\n")
    print("tools", *(f"  {name:18} {tool.title}{' (only where named)' * tool.is_extra}" for name, tool in TOOLS.items()), sep="\n")


def draw(path: Path | None, data: dict[str, Any], folder: Path) -> int:
    try:
        from plots import draw_all
    except ImportError as error:
        print(f"bench: no pictures: {error}; 'pip install matplotlib' brings it", file=sys.stderr)
        return 1
    print(*draw_all(data, folder), sep="\n")
    return 0


def main() -> int:
    options, progress = arguments(), Progress()
    if options.list:
        list_all()
        return 0
    if options.only == ["none"]:
        if not options.json or not options.plots:
            print("bench: --only none draws: it needs --json F and --plots DIR", file=sys.stderr)
            return 2
        return draw(options.json, json.loads(options.json.read_text()), options.plots)
    if not (BUILD / "bin" / "cufence").is_file() or not (BUILD / "bin" / "bench_micro").is_file():
        print(f"bench: {BUILD}/bin lacks cufence or bench_micro: build first", file=sys.stderr)
        return 2
    facts = facts_here()
    if not facts:
        print("bench: no GPU here (nvidia-smi names none): nothing was measured", file=sys.stderr)
        return 2
    try:
        bench = Bench(options, Store(options.json, facts), progress)
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2

    def stop(*_: Any) -> None:
        bench.is_stopped = True

    signal.signal(signal.SIGINT, stop)
    why = run_all(bench)
    progress.say(f"ended early, {why}: the same command goes on" if why else "done", True)
    print(report(bench.store.data), end="")
    status = draw(options.json, bench.store.data, options.plots) if options.plots else 0
    failures = bench.store.our_failures()
    for failure in failures:
        print(f"FAILED {failure}")
    return 130 if bench.is_stopped else 1 if failures else status


if __name__ == "__main__":
    sys.exit(main())
