"""tests/gpu/run.py on made-up runs: what it takes for a pass, and the results file."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import standin

sys.path.insert(0, str(standin.ROOT / "tests" / "gpu"))

import run as runner

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
CASE = runner.Case(
    "story", "story", report=[r"0 bytes past the end", r"story\.py:{FAULT}\b"], error=["illegal memory"], raises="RAISES"
)


def problems(status: int = 1, stdout: str = "", stderr: str = REPORT + TRACEBACK) -> list[str]:
    return runner.problems_of(CASE, runner.Run(status, stdout, stderr, 0.5), SOURCE)[0]


class Judging(unittest.TestCase):
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

    def test_marks(self) -> None:
        self.assertEqual(runner.marked_line(SOURCE, "FAULT"), 2)
        with self.assertRaisesRegex(ValueError, "'RAISES here' stands on 0 lines"):
            runner.marked_line(SOURCE, "RAISES here")

    def test_stories_have_their_marks(self) -> None:
        for case in runner.CASES:
            source = (runner.STORIES / f"{case.story}.py").read_text()
            compile(source, case.story, "exec")
            if any("{FAULT}" in pattern for pattern in case.report):
                runner.marked_line(source, "FAULT")
            if case.raises:
                runner.marked_line(source, case.raises)

    def test_execute(self) -> None:
        code = f"import sys, time; print('launch', time.time(), file=sys.stderr); sys.stderr.write({REPORT!r}); sys.exit(3)"
        run = runner.execute([sys.executable, "-c", code], {}, Path("/"), 60)
        self.assertEqual((run.status, run.report, run.is_timed_out), (3, REPORT, False))
        self.assertLess(run.report_seconds, 30)

    def test_timeout(self) -> None:
        run = runner.execute([sys.executable, "-c", "import time; time.sleep(60)"], {}, Path("/"), 1)
        self.assertTrue(run.is_timed_out)


class Results(unittest.TestCase):
    def test_markdown(self) -> None:
        folder = Path("/tmp/stories")
        run = runner.Run(1, "", REPORT, 0.5)
        results = [
            runner.Result("triton_overrun", True, "k | /tmp/stories/x.py:2", 0.5, run),
            runner.Result("b", None, "no GPU"),
        ]
        text = runner.markdown(results, {"gpu": "a GPU"}, folder)
        self.assertIn("1 passed, 0 failed, 1 skipped", text)
        self.assertIn("| triton_overrun | pass | 0.50 | k \\| x.py:2 |", text)
        self.assertIn("0 bytes past the end of buffer #3", text)
        self.assertNotIn("/tmp/", text)

    def test_time(self) -> None:
        slow = runner.Result("a", True, "", 1.7)
        self.assertEqual([result.ok for result in runner.report_time([slow])], [False])
        self.assertEqual(runner.report_time([runner.Result("a", True, "")]), [])

    def test_also(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "c.json"
            path.write_text(json.dumps([{"name": "c_one", "ok": True, "detail": "fine"}, {"name": "c_two", "ok": None}]))
            results = runner.also(path)
        self.assertEqual(runner.summary(results), "1 passed, 0 failed, 1 skipped")


class Command(unittest.TestCase):
    def run_it(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(standin.ROOT / "tests" / "gpu" / "run.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def test_list(self) -> None:
        self.assertEqual(self.run_it("--list").stdout.split(), [case.name for case in runner.CASES])

    def test_unknown(self) -> None:
        done = self.run_it("no_such_case")
        self.assertEqual((done.returncode, "no such case: no_such_case" in done.stderr), (2, True))


if __name__ == "__main__":
    unittest.main()
