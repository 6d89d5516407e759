"""Scripts of tests/gpu that need libcuda alone, on the simulated device: what they judge, and how they end what hangs."""

import os
import subprocess
import sys
import types
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CUFENCE_BUILD") or ROOT / "build").resolve()
SCRIPTS = ROOT / "tests" / "gpu"

sys.path.insert(0, str(SCRIPTS))
import ends  # noqa: E402
import seen  # noqa: E402


def play(script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "tests" / "libcuda"), "CUFENCE_SIM": "devices=1", **variables}
    words = [sys.executable, str(SCRIPTS / script), "--build", str(BUILD), *arguments]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)


class GpuScripts(unittest.TestCase):
    def test_ends(self) -> None:
        kernels = str(BUILD / "lib" / "librerun_kernels.so")
        options = "--set arena=64G --explain rerun"
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

    def test_seen(self) -> None:
        done = play("seen.py", "busy", "idle")
        self.assertEqual((done.returncode, done.stdout.count(": alike")), (0, 2), done.stdout + done.stderr)
