"""The zoo and the matrix without a GPU: the list is right, outputs of tools are read, and docs/detection.md is of the committed result."""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from pathlib import Path

import standin

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "zoo"))
import matrix  # noqa: E402
import page  # noqa: E402
from zoo import BUGS, STORIES, Bug  # noqa: E402

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at store_4(float *, int)+0xc0 in rerun.cu:24
=========     by thread (104,0,0) in block (7,0,0)
=========     Access to 0x10302200000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x10302000000 of size 2,097,152 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernel [0x39fb94] in libcuda.so.1
=========         Host Frame: main in rerun.cu:362 [0x1d54e] in rerun
=========
========= ERROR SUMMARY: 1 error
"""
FINDING = {
    "kind": "overrun",
    "kernel": {"name": "store_4", "line": 24},
    "buffer": {"id": 1, "distance": {"bytes": 0, "from": "past the end"}},
    "thread": {"block": [7, 0, 0], "thread": [104, 0, 0]},
    "launch": {"frames": [{"function": "main"}]},
}


def bug(name: str) -> Bug:
    return next(one for one in BUGS if one.name == name)


class Zoo(unittest.TestCase):
    def test_each_row_names_what_there_is(self) -> None:
        self.assertEqual(len({one.name for one in BUGS}), len(BUGS))
        for one in BUGS:
            with self.subTest(one.name):
                self.assertTrue(one.source.is_file())
                self.assertFalse(one.mark and one.line() is None, "no line has the mark")
                self.assertIn(one.kernel, one.source.read_text() + (STORIES / "k_oob.py").read_text())
                self.assertNotEqual(matrix.of_bug(one, False).command, matrix.of_bug(one, True).command)

    def test_the_line_of_an_access(self) -> None:
        text = bug("rerun nested").source.read_text().splitlines()
        self.assertEqual(text[bug("rerun nested").line() - 1].strip(), "out[i] = 2.5f; // FAULT nested")
        self.assertIn("tl.load(x + i", (STORIES / "k_oob.py").read_text().splitlines()[bug("triton_overrun").line() - 1])

    def test_tools(self) -> None:
        self.assertEqual(matrix.tools_for(matrix.of_bug(bug("rerun store_4"), False), False), ["native", "dumps", "memcheck", "run", "strict"])
        self.assertEqual(matrix.tools_for(matrix.of_bug(bug("deep race"), True), True), ["memcheck", "own_tool", "run", "own"])
        self.assertIn("memcheck_uncached", matrix.tools_for(matrix.of_bug(bug("triton_overrun"), False), False))


class Verdicts(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.program = matrix.of_bug(bug("rerun store_4"), False)

    def verdict(self, tool: str, status: int, said: str = "", *findings: object) -> tuple[str, list[str]]:
        if findings:
            (self.folder / "found.json").write_text("".join(json.dumps(one) + "\n" for one in ({"kind": "run"}, *findings, {"kind": "guarded"})))
        cell = matrix.verdict(self.program, tool, status, said, self.folder)
        return cell["word"], cell["named"]

    def test_cufence(self) -> None:
        everything = ["buffer", "distance", "kernel", "line", "stacks", "thread"]
        self.assertEqual(self.verdict("run", 86, "", FINDING), ("found", everything))
        self.assertEqual(self.verdict("run", 86, "", {**FINDING, "kernel": {"name": "store_4", "line": 25}}), ("elsewhere", everything))
        self.assertEqual(self.verdict("run", 86, "", {"kind": "slack write", "buffer": {"id": 3}}), ("found", ["buffer"]))
        (self.folder / "found.json").write_text('{"kind": "run"}\n{"kind": "guarded"}\n')
        self.assertEqual(self.verdict("run", 0), ("silent", []))
        self.assertEqual(self.verdict("run", 1, "error 700"), ("crashed", []))

    def test_memcheck(self) -> None:
        everything = ["buffer", "distance", "kernel", "line", "stacks", "thread"]
        self.assertEqual(self.verdict("memcheck", 0, MEMCHECK), ("found", everything))
        self.assertEqual(self.verdict("memcheck", 0, MEMCHECK.replace("rerun.cu:24", "rerun.cu:9"))[0], "elsewhere")
        self.assertEqual(self.verdict("memcheck", 0, "========= ERROR SUMMARY: 0 errors"), ("silent", []))
        self.assertEqual(self.verdict("memcheck", 139, "Segmentation fault"), ("crashed", []))

    def test_an_error_alone(self) -> None:
        self.assertEqual(self.verdict("native", 1, "error 700\ncudaErrorIllegalAddress"), ("found", []))
        self.assertEqual(self.verdict("native", 0, "error 0"), ("silent", []))


class Page(unittest.TestCase):
    def test_scores(self) -> None:
        full = {"word": "found", "named": sorted(page.WHERE)}
        some, nothing = {"word": "found", "named": ["buffer"]}, {"word": "silent", "named": []}
        data = {
            "facts": {"gpu": "a GPU", "driver": "1", "torch": "2", "cufence": "3", "date": "4"},
            "bugs": {"rerun store_4": {"run": full, "memcheck": nothing}, "fp16_odd": {"run": nothing, "own": some}},
            "twins": {"rerun store_4": {"run": nothing, "memcheck": some}},
        }
        text = page.page(data)
        self.assertIn("| cufence run | 1 of 2 | 1 | 0 of 1 |\n", text)
        self.assertIn("| compute-sanitizer memcheck | 0 of 1 | 0 | 1 of 1 |\n", text)
        self.assertIn("| fp16_odd | - | found | a size is rounded up to 16 bytes", text)
        self.assertIn("| rerun store_4 | compute-sanitizer memcheck | found |\n", text)

    @unittest.skipUnless(page.RESULTS.is_file(), "no result is committed yet")
    def test_it_is_of_the_committed_result(self) -> None:
        self.assertEqual(page.PAGE.read_text(), page.page(json.loads(page.RESULTS.read_text())), "python3 tests/zoo/page.py writes it")


if __name__ == "__main__":
    unittest.main()
