"""Tests the machinery of tests/gpu on made-up runs: when a run passes, how stories are started, and the results file."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import standin

sys.path.insert(0, str(standin.ROOT / "tests" / "gpu"))

import cases  # noqa: E402
import harness  # noqa: E402
import judge  # noqa: E402
import results  # noqa: E402
import run as runner  # noqa: E402
from zoo import BUGS  # noqa: E402

SOURCE = "x = 1\nfault()  # FAULT: why\nwait()  # RAISES\n"
REPORT = """==7== cufence: out-of-bounds READ of 4 bytes on GPU 0 (a GPU)
==7==
==7==   address    0x7000, 0 bytes past the end of buffer #3          exact
==7==   kernel     k<<<(8,1,1), (128,1,1)>>>                          exact
==7==              at            /tmp/stories/story.py:2
"""
TRACEBACK = """Traceback (most recent call last):
  File "/tmp/stories/story.py", line 3, in <module>
RuntimeError: CUDA error: an illegal memory access was encountered
"""
CASE = harness.Case(
    "story", "story.py", report=[r"0 bytes past the end", r"story\.py:{FAULT}\b"], error=["illegal memory"], raises="RAISES"
)
CLEAN = harness.Case("story", "story.py", ["3"], 0, options={"uaf": "strict"}, allocations=5)


def problems(status: int = 1, stdout: str = "", stderr: str = REPORT + TRACEBACK) -> list[str]:
    return harness.problems_of(CASE, harness.Run(status, stdout, stderr, 0.5))[0]


class Judging(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.enterContext(unittest.mock.patch.object(harness, "STORIES", self.folder))
        for name, text in (("story.py", SOURCE), ("k_oob.py", "fault()  # FAULT\n"), ("jax_kernel.cu", "")):
            (self.folder / name).write_text(text)

    def test_pass(self) -> None:
        self.assertEqual(problems(), [])

    def test_failures(self) -> None:
        for found, expected in (
            (problems(status=0), "exit status 0, expected 1"),
            (problems(stdout="not reached\n"), "nothing was raised"),
            (problems(stderr=TRACEBACK), "0 reports, expected 1"),
            (problems(stderr=REPORT + REPORT + TRACEBACK), "2 reports, expected 1"),
            (problems(stderr=REPORT.replace("py:2", "py:3") + TRACEBACK), r"the report lacks /story\.py:2\b/"),
            (problems(stderr=REPORT + TRACEBACK.replace("line 3", "line 1")), "the traceback does not name line 3"),
            (problems(stderr=REPORT + TRACEBACK.replace("illegal memory", "other")), "stderr lacks"),
        ):
            self.assertTrue(any(expected in problem for problem in found), (expected, found))

    def test_files(self) -> None:
        case = harness.Case("story", "story.py", status=0, files={"report-1.txt": [r"rank 1", r"story\.py:{FAULT}\b"]})
        run = harness.Run(0, "", "", None)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.assertIn("there is no report-1.txt", harness.problems_of(case, run, folder)[0][0])
            (folder / "report-1.txt").write_text("rank 1: story.py:3\n")
            self.assertEqual(harness.problems_of(case, run, folder)[0], [r"report-1.txt lacks /story\.py:2\b/"])
            (folder / "report-1.txt").write_text("rank 1: story.py:2\n")
            self.assertEqual(harness.problems_of(case, run, folder), ([], ["rank 1", "story.py:2"]))

    def test_statistics(self) -> None:
        for stderr, is_bad in (
            ("", True),
            ("cufence: 4 allocations, 4 of them newly mapped\n", True),
            ("cufence: 4 allocations, 4 of them\ncufence: 1 allocation, 1 of them\n", False),
        ):
            found = harness.problems_of_statistics(CLEAN, harness.Run(0, "", stderr, None))
            self.assertEqual(bool(found), is_bad, (stderr, found))

    def test_execute(self) -> None:
        code = f"import sys, time; print('launch', time.time(), file=sys.stderr); sys.stderr.write({REPORT!r}); sys.exit(3)"
        run = harness.execute([sys.executable, "-c", code], {}, Path("/"), 60)
        self.assertEqual((run.status, run.report, run.is_timed_out), (3, REPORT, False))
        self.assertLess(run.report_seconds, 30)

    def test_a_row_of_the_zoo(self) -> None:
        """What a finding names is judged as the matrix judges it: all that the row has, and the kernel for certain."""
        bug = next(one for one in BUGS if one.name == "triton_overrun")
        for more, expected in (
            ({}, None),
            ({"thread": {"block": [7, 0, 0], "thread": [1, 0, 0]}}, "found and does not name the thread"),
            ({"kernel": {"name": "other", "file": "other.py", "line": 1, "certainty": "exact"}}, "does not name the kernel, line"),
            ({"kind": "stream race"}, "elsewhere and does not name the"),
            ({"kernel": {"name": "k_oob", "file": "triton_overrun.py", "line": bug.place()[1], "certainty": "derived"}}, "the kernel is not exact"),
        ):
            found = {
                "kind": "overrun", "access": {"kind": "read"}, "thread": {"block": [7, 0, 0], "thread": [104, 0, 0]},
                "kernel": {"name": "k_oob", "file": bug.place()[0], "line": bug.place()[1], "certainty": "exact"},
                "buffer": {"id": 3, "size": 4000, "distance": {"bytes": 0, "from": "past the end"}}, **more,
            }  # fmt: skip
            (self.folder / harness.FOUND).write_text("\n".join(json.dumps(one) for one in ({"kind": "run"}, found, {"kind": "guarded"})))
            case = dataclasses.replace(cases.case_of(bug), raises=None, error=[])
            wrong = harness.problems_of(case, harness.Run(1, "", REPORT, 0.5), self.folder)[0]
            self.assertEqual(not wrong, expected is None, wrong)
            self.assertTrue(expected is None or any(expected in one for one in wrong), wrong)


EXCEPTIONS = (
    "graph_overrun",  # its kernel came from another story, out of a cache
    "cause element",  # its index is what slack holds: in that run the address was near no buffer
)


class Table(unittest.TestCase):
    def test_what_the_cases_name_is_there(self) -> None:
        for case in cases.CASES:
            with self.subTest(case.name):
                self.assertTrue(case.source.is_file())
                for expected in (*case.report, *case.output, *case.error, *(one for patterns in case.files.values() for one in patterns)):
                    for mark in re.findall(r"\{([A-Z]+(?: \w+)?)\}", expected):
                        case.line_of(mark)
                    re.compile(re.sub(r"\{[A-Z]+(?: \w+)?\}", "1", expected))
                if case.raises:
                    case.line_of(case.raises)
                self.assertLessEqual(set(case.ways), set(harness.WAYS))
                self.assertEqual(case.is_python, not set(case.ways) & set(harness.RUNTIMES))
        runs = [(case.name, way) for case in cases.CASES for way in case.ways]
        self.assertEqual(len(runs), len(set(runs)))

    def test_rows_ask_for_what_was_found_on_a_gpu(self) -> None:
        """Of the committed matrix: cufence has named all that its case asks for."""
        measured = json.loads((standin.ROOT / "tests" / "gpu" / "results" / "matrix.json").read_text())["bugs"]
        for bug in cases.ROWS:
            cell = measured.get(bug.name, {}).get("own" if bug.own else "run")
            if cell and not cell.get("slow") and bug.name not in EXCEPTIONS:
                with self.subTest(bug.name):
                    self.assertEqual(cases.case_of(bug).named - judge.judge(bug.facts(), cell)[1], set())

    def test_only_its_own_way_knows_cufence(self) -> None:
        for case in (case for case in cases.CASES if case.is_python):
            if case.stem not in ("slack_writes", "packed_writes", "poison_rows"):  # they tell or ask cufence something, in every way
                self.assertEqual("import cufence" in case.source.read_text(), case.ways == ("itself",), case.name)


class Starting(unittest.TestCase):
    def machine(self, folder: str) -> harness.Machine:
        return harness.Machine(Path(folder), {"gpu": "a GPU"}, Path("/l.so"), Path("/bin/cufence"), Path("/venv/bin/python"))

    def test_commands(self) -> None:
        machine = self.machine("/nowhere")
        python = sys.executable
        for way, expected in (
            ("enable", [python, "-u", "with_enable.py", "uaf=strict,say=verbose", "story.py", "3"]),
            ("run", ["/bin/cufence", "run", "--set", "uaf=strict", "--set", "say=verbose", "--", python, "-u", "story.py", "3"]),
            ("backend", ["/venv/bin/python", "-u", "story.py", "3"]),
            ("native", [python, "-u", "story.py", "3"]),
        ):
            self.assertEqual(harness.command_of(CLEAN, way, machine), expected)
        module = harness.Case("m", "m.py", launcher=["-X", "dev"], is_module=True)
        self.assertEqual(harness.command_of(module, "native", machine), [python, "-u", "-X", "dev", "-m", "m"])

    def test_environment(self) -> None:
        machine = self.machine("/nowhere")
        backend = harness.environment_of(CLEAN, "backend", machine, Path("/here"))
        self.assertEqual(backend["PYTORCH_CUDA_ALLOC_CONF"], "backend:cufence,cufence_uaf:strict,cufence_say:verbose")
        for way in ("run", "backend", "native"):
            environment = harness.environment_of(CLEAN, way, machine, Path("/here"))
            self.assertNotIn("CUFENCE_LIBRARY", environment)
            self.assertNotIn("allocator/torch", environment.get("PYTHONPATH", ""))

    def test_skips(self) -> None:
        machine = self.machine("/nowhere")
        self.assertIn("no torch here", harness.reason_to_skip(CLEAN, "run", machine))
        machine.facts["torch"] = machine.facts["triton"] = "1"
        self.assertIsNone(harness.reason_to_skip(CLEAN, "backend", machine))
        machine.python_with_wheel = None
        self.assertEqual(harness.reason_to_skip(CLEAN, "backend", machine), "--wheel names no wheel to install")

    def test_with_enable(self) -> None:
        """The story gets its own arguments and file name, and a traceback names its line."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "cufence.py").write_text("def enable(**options): print(options)\n")
            (folder / "story.py").write_text("import sys\nprint(sys.argv, __name__)\nraise ValueError('here')\n")
            driver = harness.STORIES / "with_enable.py"
            done = subprocess.run(
                [sys.executable, str(driver), "uaf=strict,guard=64M", "story.py", "3"],
                cwd=folder, env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
        self.assertEqual(done.stdout.splitlines(), ["{'uaf': 'strict', 'guard': '64M'}", "['story.py', '3'] __main__"])
        self.assertRegex(done.stderr, r'File "[^"]*story\.py", line 3, in <module>')

    def test_runs_and_compares(self) -> None:
        """A stand-in for `cufence run` adds a line to stdout if the test wants the results to differ."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "stories").mkdir()
            (folder / "stories" / "story.py").write_text("import sys\nprint('sum', sys.argv[1])\n")
            command = folder / "cufence"
            machine = self.machine(name)
            machine.command = command
            case = harness.Case("story", "story.py", ["3"], 0, output=["sum 3"], is_as_native=True, allocations=2)
            start = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\n'
            figures = "echo 'cufence: 2 allocations, 1 of them newly mapped' >&2\n"
            for what, lines, expected in (
                ("same", figures, None),
                ("differs", figures + "echo more\n", "results differ"),
                ("bypasses", "", "0 allocations went through cufence"),
            ):
                command.write_text(start + lines + 'exec "$@"\n')
                command.chmod(0o755)
                case.name = what
                with unittest.mock.patch.object(harness, "STORIES", folder / "stories"):
                    result = harness.run_case(case, "run", machine)
                self.assertEqual(result.ok, expected is None, (what, result.detail))
                self.assertIn(expected or "bit-identical", result.detail)



class Results(unittest.TestCase):
    def test_markdown(self) -> None:
        folder = tempfile.gettempdir() + "/cufence-stories"
        run = harness.Run(1, "", REPORT.replace("/tmp/stories/", f"{folder}/triton_overrun.run/"), 0.5)
        rows = [
            harness.Result("triton_overrun", True, f"k | {folder}/triton_overrun.run/x.py:2", 0.5, run, "run"),
            harness.Result("b", None, "no GPU"),
        ]
        text = results.markdown(rows, {"gpu": "a GPU"})
        self.assertIn("1 passed, 0 failed, 1 skipped", text)
        self.assertIn("| triton_overrun | run | pass | 0.50 | k \\| x.py:2 |", text)
        self.assertIn("0 bytes past the end of buffer #3", text)
        self.assertIn("at            story.py:2", text)
        self.assertNotIn(tempfile.gettempdir() + "/", text)

    def test_also(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "c.json"
            path.write_text(json.dumps([{"name": "c_one", "ok": True, "detail": "fine"}, {"name": "c_two", "ok": None}]))
            rows = results.also(path)
            self.assertEqual(results.summary(rows), "1 passed, 0 failed, 1 skipped")
            printed = harness.Run(0, "", REPORT, None)
            written = [harness.Result("a", False, "why", 0.25, way="run"), harness.Result("b", True, "", run=printed)]
            results.write_json(written, path)
            self.assertEqual(results.also(path), written)


class Command(unittest.TestCase):
    def run_it(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(standin.ROOT / "tests" / "gpu" / "run.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def test_list(self) -> None:
        names = [row.split(":")[0] for row in self.run_it("--list").stdout.splitlines()]
        self.assertEqual(names, [case.name for case in cases.CASES])

    def test_jobs(self) -> None:
        """Parallel runs give the same results in the same order; cases marked as alone run last."""
        runs = [(harness.Case(name, f"{name}.py", is_alone=name == "b"), "run") for name in ("a", "b", "c")]
        no_gpu = unittest.mock.patch.object(runner, "reason_to_skip", return_value="none here")
        with no_gpu, contextlib.redirect_stdout(io.StringIO()) as output:
            found = runner.run_all(runs, None, 2, False)
        self.assertEqual([result.name for result in found], ["a", "c", "b"])
        self.assertEqual(len(output.getvalue().splitlines()), 3)
        self.assertIn("--jobs: 0 is not", self.run_it("--jobs", "0").stderr)

    def test_lost_fault(self) -> None:
        """A run whose fault the driver lost beside others is repeated alone, and says so; other failures stay."""
        hung = harness.Run(-9, "", "launch 1.5\n", None, is_timed_out=True)
        late = harness.Run(-9, "", REPORT, None, is_timed_out=True)
        ends = {"lost": hung, "late": late, "clean": hung}
        runs = [(harness.Case(name, f"{name}.py", report=[] if name == "clean" else ["x"]), "run") for name in ends]
        made: list[str] = []

        def run_case(case: harness.Case, way: str, _machine: object) -> harness.Result:
            made.append(case.name)
            is_again = made.count(case.name) > 1
            return harness.Result(case.name, is_again, "found", None, None if is_again else ends[case.name], way)

        patches = unittest.mock.patch.multiple(runner, reason_to_skip=lambda *_: "", run_case=run_case)
        with patches, contextlib.redirect_stdout(io.StringIO()):
            found = runner.run_all(runs, None, 2, False)
        self.assertEqual([(result.name, result.ok) for result in found], [("lost", True), ("late", False), ("clean", False)])
        self.assertEqual(sorted(made), ["clean", "late", "lost", "lost"])
        self.assertRegex(found[0].detail, "^alone, after it had hung beside others.*; found$")

    def test_unknown(self) -> None:
        for wrong in ("no_such_case", "labels.backend"):
            done = self.run_it(wrong)
            self.assertEqual((done.returncode, f"no such case: {wrong}" in done.stderr), (2, True))
