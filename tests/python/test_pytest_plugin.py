"""pytest --cufence on the simulated device."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import venv
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import ClassVar

import simulated
import standin

PRELUDE = """
import os, pytest, simulated

@pytest.fixture(scope="session")
def device():
    return simulated.Device()
"""


def python_with_pytest() -> str:
    """Returns this interpreter if it has pytest and pytest-xdist, otherwise one that gets them from PyPI, once a build folder."""
    if importlib.util.find_spec("pytest") and importlib.util.find_spec("xdist"):
        return sys.executable
    if not importlib.util.find_spec("ensurepip"):
        raise unittest.SkipTest("no pytest, and no ensurepip to install it with: install python3-venv")
    folder = (Path(os.environ.get("CUFENCE_BUILD", standin.ROOT / "build")) / "pytest").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python, ready = folder / "bin" / "python", folder / "ready"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test file may be at it
        if not ready.exists() or not python.exists():
            venv.create(folder, with_pip=True, symlinks=True)
            done = subprocess.run([python, "-m", "pip", "install", "-q", "pytest>=8", "pytest-xdist"], capture_output=True, text=True)
            if done.returncode:
                raise unittest.SkipTest(f"no pytest, and pip could not install it: {done.stderr.strip()[-300:]}")
            ready.touch()
    return str(python)


@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Plugin(standin.InOneFolder):
    environment: ClassVar[dict[str, str]]
    python: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        library = standin.copy_library(cls.folder / "lib")
        kernel = simulated.build(cls.folder, standin.c_compiler())
        cls.python = python_with_pytest()
        paths = os.pathsep.join(map(str, [standin.PACKAGE, Path(__file__).parent]))
        cls.environment = standin.clean_environment(
            PYTHONPATH=paths, CUFENCE_LIBRARY=str(library), CUFENCE_DRIVER="sim", SIMULATED_KERNEL=str(kernel),
            COLUMNS="80", PY_COLORS="0",  # pytest cuts and colours what it prints
        )

    def setUp(self) -> None:
        self.tests = Path(tempfile.mkdtemp(dir=self.folder))

    def run_pytest(self, code: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        (self.tests / "test_it.py").write_text(PRELUDE + textwrap.dedent(code))
        command = [self.python, "-m", "pytest", "-p", "cufence.pytest_plugin", "--cufence", *arguments]
        environment = {**self.environment, **more}
        return subprocess.run(command, env=environment, cwd=self.tests, capture_output=True, text=True, timeout=120)

    def outcomes(self, done: subprocess.CompletedProcess[str]) -> dict[str, int]:
        """Returns the counts in the last line."""
        last = done.stdout.strip().splitlines()[-1]
        return {word: int(count) for count, word in re.findall(r"(\d+) (\w+?)s?\b(?= in|,| )", last)}

    FAULT = """
        def test_before(device):
            device.read(device.allocate(100))

        @pytest.mark.parametrize("size", [16, 4000])
        def test_past_the_end(device, size):
            device.read(device.allocate(size) + size)

        def test_after(device):
            device.read(device.allocate(100))
            device.synchronize()
    """

    def test_fault(self) -> None:
        """The session ends with the test that faults."""
        done = self.run_pytest(self.FAULT, "--junit-xml=out.xml")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(self.outcomes(done), {"failed": 1, "passed": 1}, done.stdout)
        cases = {case.get("name"): case for case in xml.parse(self.tests / "out.xml").iter("testcase")}
        failure = cases["test_past_the_end[16]"].find("failure")
        assert failure is not None
        self.assertIn("a GPU fault during the call", failure.text or "")
        blocks = re.split(r"^_+ (test_\S+) _+$", done.stdout, flags=re.MULTILINE)
        self.assertEqual(blocks[1::2], ["test_past_the_end[16]"])
        self.assertRegex(done.stdout, r"\nFAILED test_it\.py::test_past_the_end\[16\] - cufence: out-of-bounds READ")
        self.assertIn("! a kernel has faulted, and CUDA cannot be used in this process any more !", done.stdout)
        self.assertIn("cufence: out-of-bounds READ of 1 byte, 0 bytes past the end of buffer #", blocks[2].splitlines()[1])
        self.assertIn(": a GPU fault during the call of this test\n", blocks[2])
        self.assertNotIn("pluggy/", blocks[2])
        self.assertEqual(blocks[2].count(", 16 bytes ["), 1, blocks[2])
        self.assertRegex(blocks[2], r"(?s)- Captured stderr call -.*0 bytes past the end of buffer #.*model\.cu:17")
        done = self.run_pytest(self.FAULT, "--lf")
        self.assertEqual(self.outcomes(done), {"failed": 1}, done.stdout)

    def test_xdist(self) -> None:
        """Each worker of pytest-xdist is guarded."""
        code = """
            @pytest.mark.parametrize("number", range(8))
            def test_it(device, number, worker_id):
                with open(f"{number}.ran", "w") as file:
                    file.write(f"{worker_id} {os.getpid()}")
                device.read(device.allocate(4000) + (4000 if number == 3 else 0))
        """
        done = self.run_pytest(code, "-n", "2", "-k", "not 7")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(self.outcomes(done)["failed"], 1, done.stdout)
        self.assertRegex(done.stdout, r"_+ test_it\[3\] _+")
        self.assertIn("0 bytes past the end of buffer #", done.stdout)
        ran = [path.read_text().split() for path in sorted(self.tests.glob("*.ran"))]
        self.assertEqual({worker for worker, _ in ran}, {"gw0", "gw1"})
        self.assertEqual(len({process for _, process in ran}), 2)

    def test_code_that_knows_nothing_of_cufence(self) -> None:
        (self.folder / "libcuda.so.1").symlink_to(self.folder / "lib" / "libcufence_sim.so")
        done = self.run_pytest(
            """
            @pytest.fixture(scope="session")
            def driver():
                return simulated.Driver("libcuda.so.1")

            def test_past_the_end(driver):
                driver.read(driver.allocate(4000) + 4000)

            def test_within(driver):
                driver.read(driver.allocate(4000) + 3999)
                driver.synchronize()
            """,
            LD_LIBRARY_PATH=str(self.folder),
        )
        self.assertEqual((done.returncode, self.outcomes(done)), (1, {"failed": 1}), done.stdout)
        self.assertRegex(done.stdout, r"(?s)_ test_past_the_end _.*0 bytes past the end of buffer #.*model\.cu:17")

    HARMLESS = "def test_it(): pass"

    def test_nothing_guarded(self) -> None:
        """Without a GPU in use the tests pass, and the session does not."""
        for arguments in ([], ["-n", "2"]):
            with self.subTest(arguments=arguments):
                done = self.run_pytest(self.HARMLESS, *arguments)
                self.assertEqual(done.returncode, 87, done.stdout + done.stderr)
                self.assertIn("cufence: NOTHING WAS GUARDED: ", done.stderr)
                done = self.run_pytest(self.HARMLESS, "--no-require-guarded", *arguments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.run_pytest("def test_it(): assert 0")
        self.assertEqual(done.returncode, 1, "a failure stays one")

    def test_left_to_the_driver(self) -> None:
        done = self.run_pytest("def test_it(device): device.allocate(100)", "--cufence-options", "skip=smaller:1M")
        self.assertEqual(done.returncode, 87, done.stdout + done.stderr)
        self.assertIn("cufence: NOTHING WAS GUARDED: every allocation was left to the driver", done.stderr)
        self.assertIn("not guarded: 1 buffer smaller than skip=smaller", done.stderr)

    def test_guarded(self) -> None:
        for arguments in ([], ["-n", "2"]):
            done = self.run_pytest("def test_it(device): device.allocate(100)", *arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stderr, r"cufence: no faults; 1 allocation guarded")

    def test_without_the_flag(self) -> None:
        (self.tests / "test_it.py").write_text("import os\ndef test_it():\n    assert 'LD_PRELOAD' not in os.environ\n")
        command = [self.python, "-m", "pytest", "-p", "cufence.pytest_plugin"]
        done = subprocess.run(command, env=self.environment, cwd=self.tests, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, self.outcomes(done)), (0, {"passed": 1}), done.stdout + done.stderr)

    def test_a_fault_is_not_what_was_expected(self) -> None:
        done = self.run_pytest(
            """
            @pytest.mark.xfail
            def test_past_the_end(device):
                device.read(device.allocate(16) + 16)
                assert False
            """
        )
        self.assertEqual(self.outcomes(done), {"failed": 1}, done.stdout)
        self.assertIn("assert False", done.stdout)
        self.assertIn("0 bytes past the end of buffer #", done.stdout)

    def test_fault_in_a_fixture(self) -> None:
        for phase, before, behind in (("setup", "device.read(device.allocate(16) + 16)", ""), ("teardown", "", "device.read(device.allocate(16) + 16)")):
            done = self.run_pytest(
                f"""
                @pytest.fixture
                def fixture(device):
                    {before}
                    yield
                    {behind}
                def test_it(fixture): pass
                """
            )
            self.assertEqual(self.outcomes(done)["error"], 1, done.stdout)
            self.assertIn(f": a GPU fault during the {phase} of this test\n", done.stdout)

    def test_pytests_own_ends_stay(self) -> None:
        done = self.run_pytest("def test_it(): pytest.exit('that is it', returncode=9)")
        self.assertEqual((done.returncode, self.outcomes(done)), (9, {}), done.stdout)

    def test_collect_only(self) -> None:
        done = self.run_pytest(self.FAULT, "--co", "-q")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("test_it.py::test_past_the_end[4000]", done.stdout.splitlines())

    def test_nothing_to_run(self) -> None:
        self.assertEqual(self.run_pytest(self.FAULT, "-k", "nothing").returncode, 5)

    def test_capture(self) -> None:
        code = """
            import sys
            def test_it():
                print("said on stdout")
                print("said on stderr", file=sys.stderr)
                assert 0
        """
        done = self.run_pytest(code)
        self.assertRegex(done.stdout, r"(?s)Captured stdout call -.*said on stdout.*Captured stderr call -.*said on stderr")
        done = self.run_pytest(code, "-s")
        self.assertIn("said on stdout", done.stdout)
        self.assertNotIn("Captured stdout", done.stdout)
        self.assertIn("said on stderr", done.stderr)
        done = self.run_pytest(self.FAULT, "-s")
        self.assertRegex(done.stdout, r"(?s)- cufence -.*0 bytes past the end of buffer #.*model\.cu:17")

    def test_environment(self) -> None:
        done = self.run_pytest(
            """
            def test_it():
                assert os.environ["LD_PRELOAD"].endswith("/libcufence_preload.so:libc.so.6")
                assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == "backend:cudaMallocAsync,max_split_size_mb:64"
                assert os.environ["CUFENCE_OPTIONS"].split(",") == ["align=32", "side=start", "uaf=strict"]
            """,
            "--cufence-options",
            "uaf=strict",
            "--no-require-guarded",
            PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64,backend:cufence,cufence_side:start",
            CUFENCE_OPTIONS="align=32",
            LD_PRELOAD="libc.so.6",
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_refused(self) -> None:
        done = self.run_pytest(self.FAULT, "--cufence-options=uaf=strickt")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("uaf=strickt is not allowed", done.stderr)
        done = self.run_pytest(self.FAULT, CUFENCE_LIBRARY="/nonexistent/lib/x.so")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertIn("there is no /nonexistent/bin/cufence", done.stderr)
