"""`./dev bench` without a GPU: rounds and their statistic, stop and resume, what a tool cannot do, verdicts and pictures."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from typing import Any

from standin import BUILD, ROOT

BENCH = ROOT / "bench" / "bench.py"

sys.path.insert(0, str(ROOT / "bench"))
import bench  # noqa: E402
import found  # noqa: E402
import players  # noqa: E402
import rounds  # noqa: E402
import store  # noqa: E402
from tools import OURS, TOOLS  # noqa: E402
from workloads_of import WORKLOADS  # noqa: E402

FACTS = {"gpu": "a GPU", "driver": "1", "torch": "2", "cufence": "3", "date": "2026-01-01", "gpus": 1}
# Answers as bench/worker.py does. What it is told to do under which tool stands in its arguments: TOOL=WHAT.
FAKE = """
import json, sys
tool, orders = sys.argv[1], dict(word.split("=") for word in sys.argv[2:])
order = orders.get(tool, "")
print("a line of another kind", flush=True)
if order == "missing":
    sys.exit("no such thing here")
print("bench> {}", flush=True)
for line in sys.stdin:
    request, _, rest = line.strip().partition(" ")
    if request == "warm" and order == "why":
        answer = {"why": "needs two GPUs"}
    elif request == "warm":
        answer = {"probe": {"slow": 1.0, "double": 0.02}.get(order, 0.01)}
    elif order == "error":
        answer = {"error": "RuntimeError: cannot capture"}
    elif order == "dies":
        sys.exit("killed by the tool")
    else:
        answer = int(rest) * {"slow": 1.0, "double": 0.02}.get(order, 0.01)
    print("bench> " + json.dumps(answer), flush=True)
"""


def results(**changes: Any) -> dict[str, Any]:
    """Made-up results, for what reads them."""
    torch = [one for one in WORKLOADS if one.group == "torch"][:2]
    tools = {"native": 1.0, "run": 1.5, "enable": 1.25, "strict": 4.0, "memcheck": 60.0}
    data: dict[str, Any] = {
        "format": store.FORMAT, "facts": dict(FACTS), "tools": {name: tool.title for name, tool in TOOLS.items()}, "workloads": {},
        "memory": {"gpt2": {tool: {"device": 5 << 30, "host": 1 << 30} for tool in tools}},
        "found": {"triton_overrun": {tool: "found" if tool in OURS else "silent" for tool in tools}}, "coverage": [[1, 2], [2, 2]], "allocators": {"run": "cufence"},
    }  # fmt: skip
    for one in [*torch, *(one for one in WORKLOADS if one.name.startswith(("live.", "allocate.")))]:
        blocks = [{tool: [cost * 1e-3, cost * 2e-3] for tool, cost in tools.items()} for _ in range(3)]
        data["workloads"][one.name] = {"group": one.group, "title": one.title, "rounds": blocks, "failed": {}, "left_out": None}
    return {**data, **changes}


class Statistic(unittest.TestCase):
    def test_ratios_are_of_the_fastest_blocks_of_a_round(self) -> None:
        taken = [{"native": [2.0, 1.0, 9.0], "run": [3.0, 5.0]}, {"native": [4.0], "run": [8.0, 6.0]}, {"native": [1.0], "run": [1.0]}]
        self.assertEqual(rounds.ratios(taken, "run", "native"), [3.0, 1.5, 1.0])
        found_ = rounds.summary(taken, "run", "native")
        self.assertEqual(found_, {"seconds": 1.0, "ratio": 1.5, "lower": 1.25, "upper": 2.25, "rounds": 3})

    def test_rounds_without_a_tool_or_the_baseline_do_not_count(self) -> None:
        taken = [{"native": [1.0]}, {"run": [7.0]}, {"native": [2.0], "run": [4.0]}]
        self.assertEqual(rounds.ratios(taken, "run", "native"), [2.0])
        self.assertIsNone(rounds.summary(taken, "enable", "native"))
        alone = rounds.summary([{"run": [7.0]}], "run", "native")
        assert alone
        self.assertEqual((alone["seconds"], alone["ratio"] == alone["ratio"]), (7.0, False))

    def test_noise(self) -> None:
        for lower, upper, is_noise in ((0.9, 1.1, True), (0.98, 1.02, False), (1.01, 1.3, False), (0.6, 0.99, False)):
            self.assertEqual(rounds.is_noise({"lower": lower, "ratio": 1.0, "upper": upper}), is_noise)
        taken = [{"native": [1.0], "run": [seconds]} for seconds in (0.8, 1.0, 1.3)]
        row = {"title": "a step", "rounds": taken, "left_out": None, "failed": {}}
        self.assertIn("1.00  (0.90 to 1.15, 3 rounds, noise)", store.lines_of("a", row)[2])

    def test_the_order_changes_and_a_slow_tool_has_one_block(self) -> None:
        order: list[str] = []

        def block(tool: str) -> float | None:
            order.append(tool)
            return None if tool == "c" else 1.0

        taken = rounds.play_round(["a", "b", "c", "d"], 2, 1, block, {"d"})
        self.assertEqual("".join(order), "cdababc")
        self.assertEqual(taken, {"d": [1.0], "a": [1.0, 1.0], "b": [1.0, 1.0]})


class Players(unittest.TestCase):
    """Rounds of processes that answer as a worker does."""

    def setUp(self) -> None:
        self.bench = types.SimpleNamespace(
            store=store.Store(None, FACTS), progress=types.SimpleNamespace(say=lambda *_: None), rounds=5, is_over=lambda: False,
            options=types.SimpleNamespace(quick=False), only=set(),
        )  # fmt: skip
        self.workload = next(one for one in WORKLOADS if one.name == "training")

    def play(self, *orders: str) -> tuple[bool, dict[str, Any]]:
        class Fake(players.Torch):
            def command(self, tool: str) -> list[str]:
                return [sys.executable, "-c", FAKE, tool, *orders]

        player = Fake(self.bench, ["native", "run", "async", "strict"])  # type: ignore[arg-type]
        self.addCleanup(player.close)
        is_warm = player.warm(self.workload)
        while is_warm and len(player.row(self.workload)["rounds"]) < self.bench.rounds and not player.row(self.workload)["left_out"]:
            player.round(self.workload)
        return is_warm, player.row(self.workload)

    def test_rounds(self) -> None:
        _, row = self.play("run=double", "strict=slow")
        self.assertEqual([len(one["native"]) for one in row["rounds"]], [players.BLOCKS] * 5)
        self.assertEqual([len(one.get("strict", [])) for one in row["rounds"]], [1] * players.SLOW_ROUNDS + [0, 0])
        self.assertEqual(rounds.ratios(row["rounds"], "run", "native"), [2.0] * 5)

    def test_a_tool_that_cannot_is_noted_and_the_others_go_on(self) -> None:
        _, row = self.play("run=error", "async=missing", "strict=dies")
        self.assertEqual(row["failed"]["run"], "RuntimeError: cannot capture")
        self.assertIn("no such thing here", row["failed"]["async"])
        self.assertIn("killed by the tool", row["failed"]["strict"])
        self.assertEqual((len(row["rounds"]), set(row["rounds"][-1])), (5, {"native"}))
        self.assertEqual(len(self.bench.store.our_failures()), 2)  # async is a peer
        row["rounds"].clear()
        self.assertEqual(self.play()[1]["failed"], {})  # another try

    def test_left_out_with_a_word(self) -> None:
        is_warm, row = self.play("native=why")
        self.assertEqual((is_warm, row["left_out"], row["rounds"]), (False, "needs two GPUs", []))
        row["left_out"] = None
        is_warm, row = self.play("native=missing")
        self.assertEqual((is_warm, "no such thing here" in row["left_out"]), (False, True))

    def test_a_program_without_the_class_is_no_row(self) -> None:
        player = players.Torch(self.bench, [])  # type: ignore[arg-type]
        player.check("run", {"class": "(anonymous namespace)::cufence_allocator"})
        player.check("native", {"class": "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator"})
        with self.assertRaisesRegex(rounds.ToolError, "not with cufence's class"):
            player.check("run", {"class": "c10::cuda::CUDACachingAllocator::CudaMallocAsync::CudaMallocAsyncAllocator"})

    def test_large_models_have_few_tools(self) -> None:
        large, player = next(one for one in WORKLOADS if one.name == "gpt2"), players.Torch(self.bench, ["native", "off"])  # type: ignore[arg-type]
        self.assertEqual((player.has_part(large), player.has_part(self.workload)), (False, True))
        self.bench.only = {"off"}
        self.assertTrue(player.has_part(large))

    def test_stopped_in_a_round_keeps_the_rounds_before(self) -> None:
        blocks = iter([False] * 40)
        self.bench.is_over = lambda: next(blocks, True)
        with self.assertRaises(rounds.Stopped):
            self.play()
        taken = self.bench.store.row("training")["rounds"]
        self.assertTrue(0 < len(taken) < 5, taken)
        self.assertTrue(all(len(one["native"]) == players.BLOCKS for one in taken))

    def test_a_fault_that_the_baseline_does_not_report(self) -> None:
        class Fake(players.Whole):
            def fault_seconds(self, tool: str, workload: Any) -> dict[str, float]:
                return {"fault.full": 2.0} if tool == "run" else {}

        full = next(one for one in WORKLOADS if one.name == "fault.full")
        player = Fake(self.bench, ["native", "run"])
        self.assertTrue(player.warm(full))
        player.round(full)
        self.assertEqual(player.row(full)["rounds"], [{"run": [2.0]}])


class Results(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "folder" / "bench.json"

    def test_resumed_only_on_the_same_machine_and_build(self) -> None:
        kept = store.Store(self.file, FACTS)
        kept.row("training", "torch", "training step")["rounds"].append({"native": [0.25, 0.5], "run": [1e-7]})
        kept.row("training")["failed"]["async"] = "why"
        kept.save()
        self.assertIn("[0.25, 0.5]", self.file.read_text())
        again = store.Store(self.file, {**FACTS, "date": "later"}).row("training")
        self.assertEqual((again["rounds"], again["failed"]), ([{"native": [0.25, 0.5], "run": [1e-7]}], {"async": "why"}))
        with self.assertRaisesRegex(ValueError, "another machine or build .driver 1, here 9"):
            store.Store(self.file, {**FACTS, "driver": "9"})

    def test_told(self) -> None:
        data = results()
        data["workloads"]["fsdp"] = {"group": "torch", "title": "FSDP", "rounds": [], "failed": {}, "left_out": "needs two GPUs"}
        said = store.report(data)
        self.assertRegex(said, r"cufence run +1.5 ms +1.50 +\(1.50 to 1.50, 3 rounds\)")
        self.assertIn("fsdp: FSDP: left out: needs two GPUs", said)
        self.assertIn("2 of 2 places of allocation tested after 2 training steps", said)

    def test_verdicts(self) -> None:
        self.assertEqual((found.verdict(0, "not reached\n"), found.verdict(-6, "Starting GPU coredump generation\n")), ("silent", "found"))
        self.assertEqual(found.verdict(1, "RuntimeError: CUDA error: an illegal memory access was encountered\n"), "found")
        self.assertEqual(found.verdict(0, "========= Invalid __global__ write of size 4 bytes\nnot reached\n"), "found")
        self.assertEqual(found.verdict(1, "Traceback:\nImportError: no triton\n"), "status 1: ImportError: no triton")
        self.assertEqual(found.verdict(1, "BuildError: no compiler\ncufence: nothing was guarded\n"), "status 1: BuildError: no compiler")
        self.assertEqual(found.verdict(None, ""), f"not finished in {found.SECONDS} s")
        for bug in found.BUGS:
            self.assertTrue((found.STORIES / f"{bug}.py").is_file(), bug)

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
    def test_pictures(self) -> None:
        self.file.parent.mkdir()
        self.file.write_text(json.dumps(results()))
        command = [sys.executable, BENCH, "--only", "none", "--json", self.file, "--plots", self.file.parent]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("ratio", "found", "scaling", "memory"):
            self.assertTrue((self.file.parent / f"{name}.png").read_bytes().startswith(b"\x89PNG"))
            self.assertIn(f"results {store.digest(results())}", (self.file.parent / f"{name}.svg").read_text())


class Order(unittest.TestCase):
    def parts(self, *only: str, quick: bool = False) -> list[str]:
        options = types.SimpleNamespace(quick=quick, limit=None, only=list(only))
        measured = bench.Bench(options, store.Store(None, FACTS), types.SimpleNamespace(began=0.0, say=lambda *_: None))  # type: ignore[arg-type]
        self.assertEqual(measured.few_rounds, 15 if only else 5)
        return [title for title, _ in bench.parts(measured, None)]

    def test_what_matters_comes_first(self) -> None:
        titles = self.parts()
        self.assertEqual(titles[:4], ["PyTorch", "memory", "PyTorch under other tools", "sanitizers"])
        self.assertLess(titles.index("single calls"), titles.index("faults and starts"))

    def test_named_tools_share_their_rounds(self) -> None:
        self.assertNotIn("PyTorch under other tools", self.parts("training", "run", "values_all"))
        self.assertEqual([title for title in self.parts("training", "memcheck") if "PyTorch" in title], [])
        self.assertNotIn("PyTorch", self.parts("micro"))


class CommandLine(unittest.TestCase):
    def bench(self, *arguments: str | Path, **variables: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "CUFENCE_BUILD": str(BUILD), **variables}
        process = subprocess.Popen([sys.executable, BENCH, *arguments], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_unknown_names(self) -> None:
        _, said = self.bench("--only", "nonsense").communicate(timeout=60)
        self.assertIn("--only nonsense: there is no such group, workload or tool", said)

    @unittest.skipUnless((BUILD / "bin" / "bench_micro").is_file(), "no bench_micro: build first")
    def test_without_a_gpu(self) -> None:
        process = self.bench(PATH="/nowhere", CUFENCE_DRIVER="")
        _, said = process.communicate(timeout=60)
        self.assertEqual((process.returncode, "no GPU here" in said), (2, True), said)

    @unittest.skipUnless((BUILD / "bin" / "bench_micro").is_file(), "no bench_micro: build first")
    def test_stop_and_resume(self) -> None:
        """On the simulated device: Ctrl-C in the second workload keeps the first, and the same command takes the rest."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "bench.json"
            names = ("allocate.1", "allocate.2", "allocate.4", "live.100")  # the later ones are time for the signal
            command = (*(word for name in names for word in ("--only", name)), "--only", "api", "--json", file)
            process = self.bench(*command, CUFENCE_DRIVER="sim")
            while not file.is_file() or "allocate.2" not in json.loads(file.read_text())["workloads"]:
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)
            self.assertEqual((process.returncode, "the same command goes on" in said[1]), (130, True), said)
            kept = json.loads(file.read_text())["workloads"]
            first, second = kept["allocate.1"]["rounds"], kept["allocate.2"]["rounds"]
            self.assertEqual(len(first), 15)
            self.assertGreater(len(second), 0)
            self.assertLess(len(kept.get("live.100", {"rounds": []})["rounds"]), 15)
            process = self.bench(*command, CUFENCE_DRIVER="sim")
            said = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, said)
            data = json.loads(file.read_text())
            self.assertEqual(data["workloads"]["allocate.1"]["rounds"], first)
            self.assertEqual(data["workloads"]["allocate.2"]["rounds"][: len(second)], second)
            self.assertEqual(len(data["workloads"]["live.100"]["rounds"]), 15)
            self.assertEqual(set(data["workloads"]["live.100"]["rounds"][0]), {"native", "api"})  # a slow tool is in the first ones
