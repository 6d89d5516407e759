"""`cufence demo` and what it says to type next, on the simulated device: from a build, under any name, stripped."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import standin
from standin import BUILD, COMMAND

FAULTS = ("overrun", "underrun", "use-after-free", "graph")
OTHERS = ("slack-write", "stream-race", "first-nan")


@unittest.skipUnless(COMMAND.is_file(), f"no {COMMAND}")
class Demo(standin.InFolder):
    def run_it(self, *words: str | Path, status: int = 0, **environment: str) -> str:
        """Returns all that it prints: the report goes to stderr."""
        done = subprocess.run(
            [str(word) for word in words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=standin.clean_environment(**({"CUFENCE_DRIVER": "sim"} | environment)), timeout=120,
        )
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def test_the_list_names_each_bug_with_what_it_teaches(self) -> None:
        listed = [line.split(None, 1) for line in self.run_it(COMMAND, "demo", "--list").splitlines()]
        self.assertEqual({name for name, _ in listed}, {*FAULTS, *OTHERS})
        self.assertTrue(all(len(teaches) > 20 for _, teaches in listed))

    def test_each_bug(self) -> None:
        """All that tests/gpu/demo.py asks of the demo on a GPU."""
        script = standin.ROOT / "tests" / "gpu" / "demo.py"
        self.assertGreaterEqual(self.run_it(sys.executable, script, CUFENCE_BUILD=str(BUILD)).count("ok      "), 10)  # and that of a wheel

    def test_a_stripped_copy_under_another_name(self) -> None:
        (self.folder / "bin").mkdir()
        (self.folder / "lib").symlink_to(BUILD / "lib")
        shutil.copy(COMMAND, self.folder / "bin" / "copied")
        subprocess.run(["strip", self.folder / "bin" / "copied"], check=True)
        said = self.run_it("/bin/sh", "-c", "copied demo", PATH=f"{self.folder}/bin:/usr/bin:/bin")
        self.assertIn("4 bytes past the end: 3997", said)
        self.assertNotRegex(said, r"  \((?!_Z)\S+\+0x", "a frame without a name")
        self.assertRegex(said, r"launched at +.*plant_overrun\b")
        self.assertRegex(said, r"  main \(copied\+0x")

    def test_without_a_driver_it_simulates_one(self) -> None:
        if shutil.which("nvidia-smi"):
            self.skipTest("this machine has a driver")
        said = self.run_it(COMMAND, "demo", CUFENCE_DRIVER="")
        self.assertIn("Runs on the simulated device: ", said)
        self.assertIn("4 bytes past the end: 3997", said)

    def test_reports_that_the_environment_asks_for(self) -> None:
        self.run_it(COMMAND, "demo", CUFENCE_OPTIONS="json=of_environment.json")
        self.assertIn('"overrun"', (self.folder / "of_environment.json").read_text())
        self.assertIn("CUFENCE_OPTIONS", self.run_it(COMMAND, "demo", status=2, CUFENCE_OPTIONS="jsn=x"))
        said = self.run_it(COMMAND, "demo", "--json", "%p.json")
        pid = re.search(r"==(\d+)== SUMMARY", said)
        self.assertTrue((self.folder / f"{pid and pid[1]}.json").is_file())

    def test_what_is_saved_can_be_replayed_and_explained(self) -> None:
        """Of the folder in keep= too, while it holds one launch. The commands are those that the demo says to type."""
        for count, bug in enumerate(FAULTS, start=1):
            with self.subTest(bug):
                said = self.run_it(COMMAND, "demo", bug, "--keep", "faults")
                replay, explain = re.findall(r"^  cufence ((?:replay|explain) \S+)$", said, re.M)
                self.assertRegex(self.run_it(COMMAND, *replay.split(), status=86, CUFENCE_DRIVER=""), "in demo_")
                self.run_it(COMMAND, *explain.split())
                if count == 1:
                    taken = self.run_it(COMMAND, "replay", "faults", status=86, CUFENCE_DRIVER="")
                    self.assertIn("using the only saved launch in faults\n", taken)
        listed = self.run_it(COMMAND, "replay", "faults/", status=2)
        self.assertIn("faults/ holds 4 saved launches; name one of them:\n", listed)
        self.assertEqual(self.run_it(COMMAND, "explain", "faults").count(" SUMMARY: cufence: "), len(FAULTS))
        names = re.findall(r"^  (faults/fault-\d+-1)  (demo_\w+)$", listed, re.M)
        self.assertEqual(len(names), len(FAULTS), listed)
        self.run_it(COMMAND, "replay", names[0][0], status=86)

    def test_what_it_says_to_type_for_an_own_program(self) -> None:
        program = BUILD / "tests" / "programs" / "program_dlsym"
        if not program.is_file():
            self.skipTest(f"no {program}")
        for bug in (*FAULTS, *OTHERS):
            with self.subTest(bug):
                said = self.run_it(COMMAND, "demo", bug)
                (words,) = re.findall(r"^  cufence (run .*)PROGRAM$", said, re.M)
                self.assertIn("1 finding;", standin.cufence(*words.split(), program, "overrun").stderr)
