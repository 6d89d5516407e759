"""The zoo and the matrix without a GPU: the list is right, outputs of tools are read, and docs/detection.md is of the committed result."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path
from unittest import mock

import standin
from standin import ROOT

EXAMPLE = ROOT / "docs" / "examples" / "aoti" / "compile_models.py"
sys.path.insert(0, str(ROOT / "tests" / "zoo"))
import judge  # noqa: E402
import matrix  # noqa: E402
import page  # noqa: E402
from zoo import BUGS, STORIES, Bug  # noqa: E402

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at store_4(float *, int)+0xc0 in rerun.cu:{line}
=========     by thread (104,0,0) in block (7,0,0)
=========     Access to 0x10302200000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x10302000000 of size 4,000 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernel [0x39fb94] in libcuda.so.1
=========         Host Frame: main in rerun.cu:362 [0x1d54e] in rerun
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to cudaDeviceSynchronize.
=========     Saved host backtrace up to driver entry point at error
========= ERROR SUMMARY: 2 errors
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
TRACEBACK = """Traceback (most recent call last):
  File "/checkout/tests/gpu/stories/triton_overrun.py", line {line}, in <module>
    {text}
torch.AcceleratorError: CUDA error: an illegal memory access was encountered
"""
ASSERTED = "exceptions.cu:{line}: void fails(int *): block: [0,0,0], thread: [33,0,0] Assertion `threadIdx.x != 33` failed.\ncudaErrorAssert\n"
FINDING = {
    "kind": "overrun",
    "access": {"kind": "write", "bytes": 4},
    "kernel": {"name": "store_4", "file": "/src/rerun.cu", "line": 24},
    "buffer": {"id": 1, "size": 4000, "distance": {"bytes": 0, "from": "past the end"}},
    "thread": {"block": [7, 0, 0], "thread": [104, 0, 0]},
    "launch": {"frames": [{"function": "main", "module": "/build/rerun.static"}]},
}
EVERYTHING = {"buffer", "distance", "kernel", "line", "stacks", "thread"}


def bug(name: str) -> Bug:
    return next(one for one in BUGS if one.name == name)


class Zoo(unittest.TestCase):
    def test_each_row_names_what_there_is(self) -> None:
        self.assertEqual(len({one.name for one in BUGS}), len(BUGS))
        for one in BUGS:
            with self.subTest(one.name):
                self.assertTrue(one.source.is_file())
                facts = one.facts()
                self.assertFalse(one.mark and facts.line is None, "no line has the mark")
                self.assertTrue(facts.asked - {"thread"}, "nothing can be named")
                sources = [one.source, *(STORIES / name for name in ("k_oob.py", "jax_kernel.cu")), EXAMPLE]
                self.assertTrue(not one.kernel or any(one.kernel in source.read_text() for source in sources))
                self.assertNotEqual(matrix.of_bug(one, False).command, matrix.of_bug(one, True).command)

    def test_the_line_of_an_access(self) -> None:
        text = bug("rerun nested").source.read_text().splitlines()
        self.assertEqual(text[bug("rerun nested").place()[1] - 1].strip(), "out[i] = 2.5f; // FAULT nested")
        self.assertIn("tl.load(x + i", (STORIES / "triton_overrun.py").read_text().splitlines()[bug("triton_overrun").place()[1] - 1])

    def test_tools(self) -> None:
        self.assertEqual(matrix.tools_for(matrix.of_bug(bug("rerun store_4"), False), False), ["native", "dumps", "memcheck", "run", "strict"])
        self.assertEqual(matrix.tools_for(matrix.of_bug(bug("unwritten floats"), True), True), ["memcheck", "own_tool", "run", "own"])
        self.assertIn("memcheck_uncached", matrix.tools_for(matrix.of_bug(bug("triton_overrun"), False), False))

    def test_the_sanitizer_of_path(self) -> None:
        program = matrix.Program(("p",), bug("rerun store_4").facts())
        for known, more in ("--check-tensor-ops arg (=no)", ["--check-tensor-ops", "yes"]), ("--padding", []):
            with mock.patch.object(matrix, "sanitizer_says", lambda option, known=known: known if option == "--help" else "Version 2026.3.0.0 (build 1)"):
                for tool, launched in ("memcheck", ["--target-processes", "all"]), ("padding", ["--padding", "64"]):
                    self.assertEqual(matrix.command_of(program, tool, Path("f"))[-2 - len(more) - 1 :], [*launched, *more, "p"])
                self.assertEqual(matrix.sanitizer_here(), " ".join(["2026.3.0.0", *more]))


class Verdicts(standin.InFolder):
    """What is kept of a recorded output, and the word for it."""

    def verdict(self, name: str, tool: str, status: int, said: str = "", *findings: object) -> tuple[str, set[str]]:
        program = matrix.of_bug(bug(name), False)
        lines = [json.dumps(one) for one in ({"kind": "run"}, *findings, {"kind": "guarded"})]
        (self.folder / "found.json").write_text("\n".join(lines) if tool in matrix.OURS else "")
        kept = json.loads(json.dumps(matrix.said_by(program, tool, said, self.folder)))
        return judge.judge(program.facts, {"said": kept, "status": status})

    def test_hunt_writes_one_object(self) -> None:
        found = {"complete": True, "runs": [], "findings": [{"report": self.store(), "modes": ["end"]}]}
        (self.folder / "found.json").write_text(json.dumps(found, indent=1))
        said = matrix.said_by(matrix.of_bug(bug("unwritten ints"), False), "own", "", self.folder)
        self.assertEqual([one["kernel"] for one in said["findings"]], ["store_4"])

    def store(self, **more: object) -> dict[str, object]:
        line = bug("rerun store_4").place()[1]
        return {**FINDING, "kernel": {"name": "store_4", "file": "/src/rerun.cu", "line": line}, **more}

    def test_cufence(self) -> None:
        def word(**more: object) -> tuple[str, set[str]]:
            return self.verdict("rerun store_4", "run", 86, "", self.store(**more))

        self.assertEqual(word(), ("found", EVERYTHING))
        self.assertEqual(word(kernel={"name": "store_4", "file": "rerun.cu", "line": 1}), ("found", EVERYTHING - {"line"}))
        self.assertEqual(word(thread={"block": [7, 0, 0], "thread": [103, 0, 0]})[1], EVERYTHING - {"thread"})
        self.assertEqual(word(buffer={"id": 2, "size": 8000, "distance": {"bytes": 0, "from": "past the end"}})[1], EVERYTHING - {"buffer", "distance"})
        self.assertEqual(word(buffer={"id": 2, "size": 4000, "distance": {"bytes": 2, "from": "past the end"}})[1], EVERYTHING - {"distance"})
        other = {"kernel": {"name": "store_8", "file": "rerun.cu", "line": 1}, "buffer": {}}
        self.assertEqual(word(**other), ("elsewhere", set()))
        self.assertEqual(word(kind="stream race"), ("elsewhere", set()))
        self.assertEqual(word(access={"kind": "read"}), ("elsewhere", set()))
        self.assertEqual(self.verdict("rerun store_4", "run", 86, "", {"kind": "slack write", "buffer": {"id": 3, "size": 4000}}), ("found", {"buffer"}))
        self.assertEqual(self.verdict("rerun store_4", "run", 86, "", {"kind": "illegal access"}), ("elsewhere", set()))
        self.assertEqual(self.verdict("rerun store_4", "run", 0), ("silent", set()))
        self.assertEqual(self.verdict("rerun store_4", "run", 139, "Segmentation fault"), ("crashed", set()))

    def test_cufence_about_other_bugs(self) -> None:
        freed = {"kind": "double free", "call": "cuMemFree", "buffer": {"id": 1, "size": 4000}}
        self.assertEqual(self.verdict("double_free", "run", 1, "", freed), ("found", {"buffer", "call"}))
        nan = {"kind": "first NaN", "nan": {"kernel": "log_of"}, "buffer": {"id": 2, "size": 400000}}
        self.assertEqual(self.verdict("nan log", "own", 86, "", nan), ("found", {"buffer", "kernel"}))
        self.assertEqual(self.verdict("nan log", "own", 86, "", {"kind": "first NaN", "nan": {"kernel": "pass_on"}})[0], "elsewhere")
        late: dict[str, object] = {"kind": "write to poisoned memory", "buffer": {"id": 2, "size": 1 << 20}, "access": {"kind": "write"}}
        for given, named in (("fill", "fill"), {"buffer", "kernel"}), (("fill", "add_up"), {"buffer"}):  # one of two: it names none
            late["slack"] = {"poisoned": {"bytes": 1024}, "launches": {"list": [{"symbol": name} for name in given]}}
            for name in ("pool late", "pool past"):
                self.assertEqual(self.verdict(name, "run", 86, "", late), ("found", named))
        self.assertEqual(self.verdict("slack tail", "run", 86, "", late), ("elsewhere", set()))
        race = {"kind": "stream race", "call": "PyTorch's allocator", "called": {"frames": [{"file": "/s/streams_race.py", "line": bug("streams_race race").place()[1]}]}}
        self.assertEqual(self.verdict("streams_race race", "own", 86, "", race), ("found", {"line", "call", "stacks"}))

    def test_memcheck(self) -> None:
        said = MEMCHECK.format(line=bug("rerun store_4").place()[1])
        self.assertEqual(self.verdict("rerun store_4", "memcheck", 1, said), ("found", EVERYTHING))
        self.assertEqual(self.verdict("rerun store_4", "memcheck", 1, MEMCHECK.format(line=9))[1], EVERYTHING - {"line"})
        self.assertEqual(self.verdict("rerun store_8", "memcheck", 1, said), ("elsewhere", set()))
        only_later = said[: said.index("=========  ".strip() + " Invalid")] + said[said.index("========= Program hit") :]
        self.assertEqual(self.verdict("rerun store_4", "memcheck", 1, only_later + "cudaErrorLaunchFailure\n"), ("elsewhere", set()))
        self.assertEqual(self.verdict("rerun store_4", "memcheck", 0, CLEAN), ("silent", set()))
        self.assertEqual(self.verdict("rerun store_4", "memcheck", 139, "Segmentation fault"), ("crashed", set()))
        inlined = said.replace("at store_4(float *, int)+0xc0 in rerun.cu", "at atomicAdd(float *)+0x10 in atomic.hpp", 1).replace(
            "by thread", f"Device Frame:store_4(float *, int)+0xc0 in rerun.cu:{bug('rerun store_4').place()[1]}\n=========     by thread")  # fmt: skip
        self.assertEqual(self.verdict("rerun store_4", "memcheck", 1, inlined), ("found", EVERYTHING))

    def test_other_sanitizers(self) -> None:
        unwritten = "========= Uninitialized __global__ memory read of size 4 bytes\n=========     at add_ints(const int *, int *)+0x90 in unwritten.cu:{}\n"
        self.assertEqual(self.verdict("unwritten ints", "own_tool", 0, unwritten.format(1)), ("found", {"kernel"}))
        self.assertEqual(self.verdict("leak", "own_tool", 0, unwritten.format(1)), ("elsewhere", set()))
        leaked = "========= Leaked 1,048,576 bytes at 0x7f1\n=========     Saved host backtrace up to driver entry point at allocation time\n"
        self.assertEqual(self.verdict("leak", "own_tool", 0, leaked), ("found", {"buffer"}))

    def test_an_error_alone(self) -> None:
        line = bug("exceptions assert").place()[1]
        self.assertEqual(self.verdict("rerun store_4", "native", 1, "error 700\ncudaErrorIllegalAddress"), ("elsewhere", set()))
        self.assertEqual(self.verdict("rerun store_4", "native", 0, "error 0"), ("silent", set()))
        self.assertEqual(self.verdict("exceptions assert", "native", 1, ASSERTED.format(line=line)), ("found", {"kernel", "line", "thread"}))
        self.assertEqual(self.verdict("double_free", "native", 0, "second free: cudaErrorInvalidValue"), ("found", {"call"}))
        launched = TRACEBACK.format(line=18, text="k_oob[(8,)](x, y, 1000, BLOCK=128)")
        self.assertEqual(self.verdict("triton_overrun", "blocking", 1, launched), ("found", {"kernel"}))
        waited = TRACEBACK.format(line=19, text="torch.cuda.synchronize()  # RAISES")
        self.assertEqual(self.verdict("triton_overrun", "native", 1, waited), ("elsewhere", set()))

    def test_no_folder_of_the_machine_is_kept(self) -> None:
        said = f'  File "{ROOT}/tests/gpu/stories/big_buffer.py", line 23, in <module>\n    torch.cuda.synchronize()\n'
        self.assertEqual(judge.kept_lines(said, "big_buffer.py"),
                         ['File "tests/gpu/stories/big_buffer.py", line 23, in <module> | torch.cuda.synchronize()'])  # fmt: skip

    def test_names_of_kernels(self) -> None:
        facts = bug("numba_overrun wrong").facts()
        for named in ("k_oob", "void ns::k_oob<float>(float *)", "__main__::k_oob[abi:v1](Array<float, 1>)", "k_oob_0", "_ZN8__main__5k_oobB2v1B106cw51"):
            self.assertTrue(judge.is_kernel(named, facts), named)
        for named in ("", "k_oob_half", "not_k_oob", "_ZN8__main__8k_oob_16B2v1"):
            self.assertFalse(judge.is_kernel(named, facts), named)

    def test_corpora(self) -> None:
        for name, listed in json.loads(matrix.CORPORA.read_text()).items():
            self.assertEqual(len({row["name"] for row in listed["programs"]}), len(listed["programs"]))
            for row in listed["programs"]:
                with self.subTest(f"{name}: {row['name']}"):
                    self.assertTrue(row.get("build") or (listed["build"] and row["source"]))
                    self.assertFalse(row["kind"] and not matrix.corpus_facts(row).asked, "nothing can be named")

    def test_what_is_run_again(self) -> None:
        self.assertTrue(matrix.is_open(None))
        self.assertTrue(matrix.is_open({"slow": True, "said": {}, "machine": 0}))
        self.assertFalse(matrix.is_open({"slow": True, "said": {}, "alone": True}))
        self.assertFalse(matrix.is_open({"slow": True, "said": {"lines": ["error 700"]}}))
        self.assertFalse(matrix.is_open({"said": {}, "status": 0}))

    def test_what_is_left_out(self) -> None:
        """What a machine cannot run is no miss of a tool's."""
        fails, works = (matrix.Program(("sh", "-c", code), bug("numba_overrun wrong").facts(), is_python=True) for code in ("exit 1", "exit 0"))
        for word, twin, is_left_out in (("crashed", fails, True), ("elsewhere", fails, True), ("found", fails, False), ("crashed", works, False), ("crashed", None, False)):
            self.assertEqual(bool(matrix.why_left_out({"status": 1, "said": {}}, word, twin)), is_left_out, (word, twin))
        said = "========= COMPUTE-SANITIZER\n========= Error: Target application terminated before first instrumented API call\n"
        for code, is_left_out in (f"printf '{said}'; exit 255", True), ("exit 255", False):
            cell = matrix.run_cell(matrix.Program(("sh", "-c", code), bug("rerun store_4").facts()), "native")
            self.assertEqual(judge.judge(bug("rerun store_4").facts(), cell)[0], "crashed")
            self.assertEqual(bool(matrix.why_left_out(cell, "crashed", None)), is_left_out)

    def test_a_program_that_never_ends(self) -> None:
        """What it has said counts, also what stands before and behind megabytes."""
        facts = bug("rerun store_4").facts()
        for code, word in (("echo '{0}: error 700'; yes x | head -c 200000; while :; do :; done", "elsewhere"), ("while :; do :; done", "slow")):
            with mock.patch.multiple(matrix, SECONDS=1, PRINTED=50000):
                cell = matrix.run_cell(matrix.Program(("sh", "-c", code), facts), "native")
            self.assertTrue(cell["slow"])
            self.assertEqual(judge.judge(facts, cell)[0], word)


class Page(unittest.TestCase):
    def test_scores(self) -> None:
        line = bug("rerun store_4").place()[1]
        full = {"said": {"reports": judge.kept_of_sanitizer(MEMCHECK.format(line=line))}, "status": 1, "machine": 1}
        nothing: dict[str, object] = {"said": {}, "status": 0}
        some = {"said": {"findings": [{"kind": "overrun", "bytes": 2002}]}, "status": 86}
        machine = {"gpu": "a GPU", "driver": "1", "torch": "2", "cufence": "3", "date": "4", "jobs": 5}
        data = {
            "machines": [machine, {**machine, "gpu": "another", "sanitizer": "2026.3.0"}],
            "bugs": {"rerun store_4": {"run": nothing, "memcheck": full}, "fp16_odd": {"run": nothing, "own": some}},
            "twins": {"rerun store_4": {"run": nothing, "memcheck": full}},
        }
        text = page.page(data)
        self.assertIn("| cufence run | a:3 | 0/2 | 0 | 0 | 2 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0/1 |\n", text)
        self.assertIn("| compute-sanitizer memcheck | b:2 | 1/1 | 1 | 0 | 0 | 0 | 1 | 1 | 1 | 1 | 1 | 1 | 0 | 1/1 |\n", text)
        self.assertIn("\nrerun store_4,overrun,CUDA,,,,full b,,,,-,,\n", page.rows(data))
        self.assertIn("| overrun |  | 1/1 | 0/2 |  |\n", text)
        self.assertRegex(text, r"\| up to 15 bytes behind a size[^|]* \| fp16_odd \|")
        self.assertIn("- b: another, driver 1, PyTorch 2, cufence 3, compute-sanitizer 2026.3.0, 4, 5 jobs: 2 cells.", text)
        self.assertIn("| rerun store_4 | compute-sanitizer memcheck | elsewhere |\n", text)
        self.assertEqual(json.loads(matrix.as_text(data)), data)

    def test_results_merge(self) -> None:
        """A newer cell replaces an older one, others stay with their machine; rows and machines of which nothing is left go."""
        silent, slow = {"said": {}, "status": 0, "machine": 0}, {"said": {}, "slow": True, "machine": 0}
        old = {"machines": [{"gpu": "old"}, {"gpu": "older"}], "twins": {},
               "bugs": {"leak": {"run": silent, "own": silent}, "double_free": {"run": {**silent, "machine": 1}}, "no such row": {"run": silent}}}  # fmt: skip
        new = {"machines": [{"gpu": "unused"}, {"gpu": "new"}], "twins": {"leak": {"run": {**slow, "machine": 1}}},
               "bugs": {"leak": {"run": {**slow, "machine": 1}}, "double_free": {"run": {**slow, "machine": 1}}}}  # fmt: skip
        bugs = {"leak": {"run": slow, "own": {**silent, "machine": 1}}, "double_free": {"run": slow}}
        self.assertEqual(matrix.merged(old, new), {"machines": [{"gpu": "new"}, {"gpu": "old"}], "bugs": bugs, "twins": {"leak": {"run": slow}}})

    @unittest.skipUnless(page.RESULTS.is_file(), "no result is committed yet")
    def test_it_is_of_the_committed_result(self) -> None:
        data = json.loads(page.RESULTS.read_text())
        self.assertEqual(page.PAGE.read_text(), page.page(data), "python3 tests/zoo/page.py writes it")
        self.assertEqual(page.ROWS.read_text(), page.rows(data), "python3 tests/zoo/page.py writes it")
