"""Scripts of tests/gpu that need libcuda alone, on the simulated device: what they judge, and how they end what hangs."""

import importlib
import os
import re
import subprocess
import sys
import types
import unittest
from pathlib import Path

from standin import BUILD, LIBCUDA, ROOT

SCRIPTS = ROOT / "tests" / "gpu"

sys.path.insert(0, str(SCRIPTS))
import alike  # noqa: E402
import faults  # noqa: E402


def play(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(LIBCUDA), "CUFENCE_BUILD": str(BUILD)}
    environment |= {"CUFENCE_SIM": "devices=1", **variables}
    words = [sys.executable, str(SCRIPTS / script), *arguments, "--build", str(BUILD)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)


class GpuScripts(unittest.TestCase):
    def test_each_can_be_read(self) -> None:
        for script in SCRIPTS.glob("*.py"):
            if not script.name.startswith("torch_"):  # these need PyTorch
                importlib.import_module(script.stem)

    def test_ends(self) -> None:
        kernels = str(BUILD / "lib" / "librerun_kernels.so")
        options = "--explain rerun"
        done = play("faults.py", "ends.as_it_is", "ends.nine_descriptors", "ends.no_descriptor", "ends.full", "ends.all_1", CUSIM_KERNELS=kernels, ENDS_OPTIONS=options)
        self.assertEqual((done.returncode, done.stdout.count("explained")), (0, 3), done.stdout + done.stderr)

    def test_hanging(self) -> None:
        """A process that hangs is killed with its child, and where they wait is said."""
        process = subprocess.Popen(["sh", "-c", "sleep 1000; true"], stdout=subprocess.PIPE, text=True, start_new_session=True)
        text, where = faults.end_of(process, 0.2)
        self.assertEqual(text, "")
        self.assertRegex(where, r": sleep, .*\n(.*\n)*.* has \d+ descriptors")
        self.assertEqual(process.returncode, -9)

    def test_nothing_tested(self) -> None:
        """A device whose memory others use is no proof that both runs are alike."""
        done = play("alike.py", "little_space.24", CUFENCE_SIM="devices=1,memory=2097152")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("little_space.24: NOTHING WAS TESTED", done.stdout)
        run = types.SimpleNamespace(out="", end=alike.ENDS[0], status=1, seconds=0, err="cuDevicePrimaryCtxRetain: error 2")
        self.assertIn("NOTHING WAS TESTED", alike.problems_of("busy", run, run)[0])  # type: ignore[arg-type]

    def test_little_space(self) -> None:
        done = play("alike.py", "little_space.24")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("ok      little_space.24: the same: every buffer was right", done.stdout)

    def test_program_dump(self) -> None:
        cases = "when", "permanent", "defaults", "inside", "outside", "attributes"  # nothing reads the trigger pipe here
        done = play("faults.py", *(f"program_dump.{case}" for case in cases), CUSIM_KERNELS=str(BUILD / "lib" / "librerun_kernels.so"))
        self.assertEqual((done.returncode, done.stdout.count("ok     ")), (0, 6), done.stdout + done.stderr)

    def test_seen(self) -> None:
        done = play("alike.py", "seen.busy", "seen.outlives")
        self.assertEqual((done.returncode, done.stdout.count(": alike")), (0, 2), done.stdout + done.stderr)
        for options in ("", "uaf=strict", "uaf=off,slack=off"):  # docs/how-it-works.md has the limits
            done = play("alike.py", "seen.idle", CUFENCE_OPTIONS=options)
            self.assertIn("idle: alike", done.stdout)
            native, guarded = (int(kib) for kib in re.findall(r" resident (\d+)", done.stdout))
            self.assertLess(guarded - native, 16 << 10, done.stdout)
