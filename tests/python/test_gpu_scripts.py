"""Scripts of tests/gpu that need libcuda alone, on the simulated device: what they judge, and how they end what hangs."""

import json
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

from standin import BUILD, LIBCUDA, ROOT

SCRIPTS = ROOT / "tests" / "gpu"

sys.path.insert(0, str(SCRIPTS))
import ends  # noqa: E402
import seen  # noqa: E402
import suites  # noqa: E402
from harness import Run  # noqa: E402


def play(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBCUDA), "CUFENCE_BUILD": str(BUILD)}
    environment |= {"CUFENCE_SIM": "devices=1", **variables}
    words = [sys.executable, str(SCRIPTS / script), *arguments, *([] if script == "suites.py" else ["--build", str(BUILD)])]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)


class GpuScripts(unittest.TestCase):
    def test_ends(self) -> None:
        kernels = str(BUILD / "lib" / "librerun_kernels.so")
        options = "--explain rerun"
        done = play("ends.py", "as_it_is", "nine_descriptors", "no_descriptor", "full", CUSIM_KERNELS=kernels, ENDS_OPTIONS=options)
        self.assertEqual((done.returncode, done.stdout.count("explained")), (0, 3), done.stdout + done.stderr)

    def test_hanging(self) -> None:
        """A process that hangs is killed with its child, and where they wait is said."""
        process = subprocess.Popen(["sh", "-c", "sleep 1000; true"], stdout=subprocess.PIPE, text=True, start_new_session=True)
        text, where = ends.end_of(process, 0.2)
        self.assertEqual(text, "")
        self.assertRegex(where, r": sleep, .*\n(.*\n)*.* has \d+ descriptors")
        self.assertEqual(process.returncode, -9)

    def test_nothing_tested(self) -> None:
        """A device whose memory others use is no proof that both runs are alike."""
        done = play("little_space.py", "24", CUFENCE_SIM="devices=1,memory=2097152")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("24: NOTHING WAS TESTED", done.stdout)
        run = types.SimpleNamespace(out="", end=seen.ENDS[0], status=1, seconds=0, err="cuDevicePrimaryCtxRetain: error 2")
        self.assertIn("NOTHING WAS TESTED", seen.problems_of("busy", run, run)[0])  # type: ignore[arg-type]

    def test_little_space(self) -> None:
        done = play("little_space.py", "24")
        self.assertEqual((done.returncode, done.stdout.splitlines()[0]), (0, "ok     24: the same: every buffer was right"), done.stdout)

    def test_program_dump(self) -> None:
        cases = "when", "permanent", "defaults", "inside", "outside", "attributes"  # nothing reads the trigger pipe here
        done = play("program_dump.py", *cases, CUSIM_KERNELS=str(BUILD / "lib" / "librerun_kernels.so"))
        self.assertEqual((done.returncode, done.stdout.count("ok     ")), (0, 6), done.stdout + done.stderr)

    def test_seen(self) -> None:
        done = play("seen.py", "busy", "outlives")
        self.assertEqual((done.returncode, done.stdout.count(": alike")), (0, 2), done.stdout + done.stderr)
        for options in ("", "uaf=strict", "uaf=off,slack=off"):  # docs/how-it-works.md has the limits
            done = play("seen.py", "idle", CUFENCE_OPTIONS=options)
            self.assertIn("idle: alike", done.stdout)
            native, guarded = (int(kib) for kib in re.findall(r" resident (\d+)", done.stdout))
            self.assertLess(guarded - native, 16 << 10, done.stdout)

    def test_suites(self) -> None:
        program = BUILD / "tests" / "programs" / "program_dlsym"
        programs = {
            "right-cuda": f"echo PASS; exec {program} capture",
            "histogram": f"exec {program} overrun",
            "wrong": f"exec {program} double_free",
            "other": f'[ -z "$LD_PRELOAD" ] && echo PASS || echo FAIL; exec {program} capture',
            "unsteady": f"mkdir ran && echo PASS; exec {program} capture",
            "broken": "exit 3",
            "shell": "#!/no/such/shell",
        }
        script = """import json, os, sys
print(json.dumps({"name": sys.argv[2], "result": 1 + ("LD_PRELOAD" in os.environ and sys.argv[2] == "1/2")}))
"""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source"
            for name, text in programs.items():
                (source / name).mkdir(parents=True)
                (source / name / "main").write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
                (source / name / "main").chmod(0o755)
                rule = "program = main\nrun: $(program)\n\trm -f old\n\t$(LAUNCHER) ./$(program) 3 \\\n\t 4\n\n"
                (source / name / "Makefile").write_text(rule)
            (Path(folder) / "script.py").write_text(script)
            out = Path(folder) / "out.json"
            words = [str(source), f"{folder}/script.py", "--jobs", "2", "--with", "", "--with", "streams=on"]
            done = play("suites.py", *words, "--json", str(out), "--reports", f"{folder}/reports", CUFENCE_DRIVER="sim")
            states = {(row["suite"], row["options"]): row["state"] for row in json.loads(out.read_text())}
            kept = {path.name for path in Path(folder, "reports").iterdir()}
        expected = {
            "source/right": "same", "source/histogram": "same", "source/wrong": "FOUND", "source/other": "DIFFERS",
            "source/unsteady": "same", "source/broken": "nothing guarded", "script 0/2": "nothing guarded", "script 1/2": "DIFFERS",
            "source/shell": "FAILED",
        }  # fmt: skip
        every = {(name, settings): state for name, state in expected.items() for settings in ("", "streams=on")}
        self.assertEqual(states, every, done.stdout)
        self.assertEqual(done.returncode, 1)
        ends = ("wrong_defaults.txt", "wrong_defaults.jsonl", "histogram_streams_on.jsonl", "other_defaults.txt")
        self.assertLessEqual({f"source_{end}" for end in ends}, kept)
        self.assertFalse({name for name in kept if "right" in name})
        self.assertRegex(done.stdout, r"double free by cuMemFree at memory_stories.c")
        self.assertRegex(done.stdout, r"source +streams=on +7 +3 +1 +1 +1 +1 +0 +1 ")

    def test_suites_of_tests(self) -> None:
        """What the end of a run did not reach is no difference, but what it had done is compared."""
        lines = ["a/test_b.py::T::test_1[x y] PASSED [ 10%]", "a/test_b.py::test_2 FAILED [ 20%]", "a/test_b.py::test_3 "]
        tests = suites.Suite("b", "tests", Path(), [])
        native = Run(1, "\n".join(lines), "", None)
        expected = {"a/test_b.py::T::test_1[x y]": "PASSED", "a/test_b.py::test_2": "FAILED"}
        self.assertEqual(suites.outcome(tests, native), expected)
        other = Run(-9, lines[0].replace("PASSED", "ERROR"), "", None, is_timed_out=True)
        self.assertEqual(suites.differences(tests, native, other), ["a/test_b.py::T::test_1[x y]: PASSED, then ERROR"])
        other.is_timed_out = False
        self.assertEqual(len(suites.differences(tests, native, other)), 3)
