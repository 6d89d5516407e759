"""PyTorch's own tests, natively and guarded: which have another outcome with cufence, and why.

    pytorch_suite.py FOLDER [--classes test_cuda.TestCuda,...] [--ways native,run,backend] [--jobs 8] [--seconds 240]
                     [--limit 60] [--wheel WHEEL] [--json FILE] [--all]

FOLDER has test_cuda.py and what else is named, of PyTorch's repository (test/), of the installed version or one near to it; the wheel of
PyTorch does not have them. They need the packages expecttest and, for tests that compile, ninja. Each way runs every test; a process that
dies, hangs (--limit) or has lost its CUDA context is followed by one for the rest. Tests that PyTorch marks as serial run alone, after
the others. DIFFERENT says which outcomes differ by design. Exit status: 0, 1 if another differs, 2 if nothing ran.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import faulthandler
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from harness import COMMAND, install_wheel

CLASSES = "test_cuda.TestCuda,test_cuda.TestCudaMallocAsync,test_cuda.TestBlockStateAbsorption"
PAGES = "a buffer has pages of its own: PyTorch's own allocator cuts several out of 2 or 20 MiB"
SETTINGS = "the setting is one of the allocator that cufence replaces"
DIFFERENT = {
    "TestCuda.test_graph_memory_stats_and_use_result_after_destroy_graph": PAGES,
    "TestCuda.test_graph_two_successive": PAGES,
    "TestCuda.test_memory_stats_of_multiple_generators_and_graphs": PAGES,
    "TestCudaMallocAsync.test_allocator_backend": "asks for the back end cudaMallocAsync and gets cufence's, which says native",
    "TestCudaMallocAsync.test_allocator_settings": f"roundup_power2_divisions: {SETTINGS}",
    "TestCudaMallocAsync.test_cachingAllocator_raw_alloc": "memory is guarded and counted with PyTorch's cache switched off, too",
    "TestCudaMallocAsync.test_memory_compile_regions": "the history of memory has no regions of the compiler",
    "TestCudaMallocAsync.test_memory_plots_metadata": "the history of memory has no metadata of the program",
    "TestMemPool.test_mempool_with_allocator": PAGES,
    "TestMemPool.test_mempool_no_split": "no pool is ever split, whatever no_split says",
    "TestMemPool.test_mempool_limited_memory_with_allocator": "a limit counts guarded memory, and only guarded pools lend",
    "TestMemPool.test_graph_capture_reclaim_2_streams": f"graph_capture_record_stream_reuse: {SETTINGS}",
    "TestMemPool.test_graph_capture_reclaim_4_streams": f"graph_capture_record_stream_reuse: {SETTINGS}",
    "TestMemPool.test_mempool_expandable": f"expandable_segments: {SETTINGS}",
    "TestMemPool.test_mempool_ctx_multithread": PAGES,
}

# ---- in a process of its own ----


def listed(module: str, classes: list[str]) -> None:
    """Prints the tests of the classes, and whether each must be alone."""
    found = importlib.import_module(module)
    tests = {}
    for name in classes:
        case = getattr(found, name, None)
        for method in unittest.defaultTestLoader.getTestCaseNames(case) if case else ():
            marks = [mark.name for mark in getattr(getattr(case, method), "pytestmark", ())]
            tests[f"{module}.{name}.{method}"] = "serial" in marks
    print("tests " + json.dumps(tests))


def is_context_lost() -> bool:
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def error_of(traceback: str) -> str:
    """The line that names the exception: PyTorch appends advice to it."""
    lines = traceback.strip().splitlines()
    return next((line for line in reversed(lines) if re.match(r"[\w.]*(Error|Exception|Failure)\b", line)), lines[-1])


def work(record: str, limit: float, tests: list[str]) -> None:
    modules = {name: importlib.import_module(name) for name in {test.rsplit(".", 2)[0] for test in tests}}
    with open(record, "a", buffering=1) as file:
        for test in tests:
            began = time.monotonic()
            file.write(json.dumps({"test": test}) + "\n")
            faulthandler.dump_traceback_later(limit, exit=True)
            result = unittest.TestResult()
            module, name, method = test.rsplit(".", 2)
            unittest.TestSuite([getattr(modules[module], name)(method)]).run(result)
            faulthandler.cancel_dump_traceback_later()
            wrong = [text for _, text in result.failures + result.errors]
            outcome = "failed" if wrong or result.unexpectedSuccesses else "skipped" if result.skipped else "passed"
            why = error_of(wrong[0]) if wrong else result.skipped[0][1] if result.skipped else ""
            print(test, outcome, *wrong, sep="\n", flush=True)
            seconds = round(time.monotonic() - began, 2)
            file.write(json.dumps({"test": test, "outcome": outcome, "why": why[:300], "seconds": seconds}) + "\n")
            if outcome == "failed" and is_context_lost():
                os._exit(3)


# ---- the runner ----


class Suite:
    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given, self.folder = given, folder
        self.deadline = time.monotonic() + given.seconds
        self.python = {"backend": install_wheel(given.wheel, folder / "venv")} if "backend" in given.ways else {}

    def start(self, way: str, log: Path, *arguments: str) -> int | str:
        command = [self.python.get(way, sys.executable), str(Path(__file__).resolve()), "--worker", *arguments]
        paths = [str(Path(self.given.folder).resolve()), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        if way == "run":
            command = [str(COMMAND), "run", "--", *command]
        if way == "backend":
            environment["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cufence"
        with log.open("ab") as file:
            try:
                left = max(1.0, self.deadline - time.monotonic())
                return subprocess.run(command, stdout=file, stderr=file, env=environment, timeout=left, check=False).returncode
            except subprocess.TimeoutExpired:
                return "out of time"

    def tests(self) -> dict[str, bool]:
        by_module = collections.defaultdict(list)
        for name in self.given.classes.split(","):
            by_module[name.rpartition(".")[0]].append(name.rpartition(".")[2])
        found: dict[str, bool] = {}
        for module, classes in by_module.items():
            log = self.folder / f"list-{module}.log"
            status = self.start("native", log, "list", module, *classes)
            lines = [line[6:] for line in log.read_text(errors="replace").splitlines() if line.startswith("tests ")]
            if not lines:
                print(f"{module}: not listed ({status}): {log.read_text(errors='replace').strip()[-300:]}")
            found.update(json.loads(lines[-1]) if lines else {})
        return found

    def shard(self, way: str, name: str, tests: list[str]) -> dict[str, dict]:
        """Runs tests one after the other, in as many processes as that takes."""
        results: dict[str, dict] = {}
        record, log = self.folder / f"{way}-{name}.jsonl", self.folder / f"{way}-{name}.log"
        while tests and time.monotonic() < self.deadline:
            status = self.start(way, log, "work", str(record), str(self.given.limit), *tests)
            begun = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
            results = {each["test"]: each for each in begun}
            for each in results.values():
                each.setdefault("outcome", "unfinished" if status == "out of time" else "died")
                each.setdefault("why", f"exit status {status}")
            record.write_text("".join(json.dumps(each) + "\n" for each in results.values()))
            if not any(test in results for test in tests):
                return results | {test: {"test": test, "outcome": "died", "why": f"not begun: {status}"} for test in tests}
            tests = [test for test in tests if test not in results]
        return results

    def run(self) -> dict[str, dict[str, dict]]:
        tests = self.tests()
        together = [test for test, is_serial in tests.items() if not is_serial]
        results: dict[str, dict[str, dict]] = {way: {} for way in self.given.ways}
        with concurrent.futures.ThreadPoolExecutor(self.given.jobs * len(self.given.ways)) as pool:
            shards = [(way, i) for i in range(self.given.jobs) for way in self.given.ways]
            futures = {pool.submit(self.shard, way, str(i), together[i :: self.given.jobs]): way for way, i in shards}
            for future, way in futures.items():
                results[way].update(future.result())
        for way in self.given.ways:
            results[way].update(self.shard(way, "serial", [test for test in tests if tests[test]]))
        return results


def compare(results: dict[str, dict[str, dict]], says_all: bool) -> int:
    """Prints what differs from the native run. Returns how many differ without a reason."""
    native, unexpected = results["native"], 0
    for way in results:
        counts = collections.Counter(each["outcome"] for each in results[way].values())
        print(f"{way}: {len(results[way])} tests, " + ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
    for way in [way for way in results if way != "native"]:
        for test, each in sorted(results[way].items()):
            before = native.get(test, {"outcome": "unfinished", "why": ""})
            name = test.partition(".")[2]
            if says_all and each["outcome"] == before["outcome"]:
                print(f"  {each['outcome']:8} {name} {each['why'] if each['outcome'] != 'passed' else ''}")
            if each["outcome"] == before["outcome"] or "unfinished" in (each["outcome"], before["outcome"]):
                continue
            reason = DIFFERENT.get(name)
            unexpected += reason is None and before["outcome"] == "passed"
            told = reason or f"{each['why']} (native: {before['why']})"
            print(f"  {way}: {name}: {each['outcome']}, native {before['outcome']}: {told}")
    return unexpected


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--classes", default=CLASSES)
    parser.add_argument("--ways", default="native,run", type=lambda text: text.split(","))
    parser.add_argument("--jobs", type=int, default=8, help="processes at a time, of each way")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--limit", type=float, default=60, help="seconds for one test")
    parser.add_argument("--wheel")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--all", action="store_true", help="also lists the tests whose outcome is the same")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = Suite(given, Path(folder)).run()
        logs = {path.name: path.read_text(errors="replace")[-20000:] for path in sorted(Path(folder).glob("*.log"))}
    if given.json:
        given.json.write_text(json.dumps({"results": results, "logs": logs}, indent=1))
    if not results["native"]:
        return 2
    return int(compare(results, given.all) > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        what, *words = sys.argv[2:]
        sys.argv[1:] = []
        if what == "list":
            listed(words[0], words[1:])
        else:
            work(words[0], float(words[1]), words[2:])
    else:
        sys.exit(main())
