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

    def run_pytest(self, code: str, *arguments: str, switch: str = "--cufence", **more: str) -> subprocess.CompletedProcess[str]:
        (self.tests / "test_it.py").write_text(PRELUDE + textwrap.dedent(code))
        command = [self.python, "-m", "pytest", "-p", "cufence.pytest_plugin", switch, *arguments]
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
        done = self.run_pytest(self.FAULT, "--junit-xml=out.xml")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(self.outcomes(done), {"failed": 2, "passed": 2}, done.stdout)
        cases = {case.get("name"): case for case in xml.parse(self.tests / "out.xml").iter("testcase")}
        self.assertEqual(len(cases), 4)
        failure = cases["test_past_the_end[4000]"].find("failure")
        assert failure is not None
        self.assertIn("a GPU fault during the call", failure.text or "")
        blocks = re.split(r"^_+ (test_\S+) _+$", done.stdout, flags=re.MULTILINE)
        self.assertEqual(blocks[1::2], ["test_past_the_end[16]", "test_past_the_end[4000]"])
        self.assertRegex(done.stdout, r"\nFAILED test_it\.py::test_past_the_end\[16\] - cufence: out-of-bounds READ")
        self.assertRegex(done.stderr, r"\A==\d+== cufence: no faults; 1 allocation guarded.*\n\Z")  # of the last process
        for block, size in zip(blocks[2::2], (16, 4000), strict=True):
            self.assertIn("cufence: out-of-bounds READ of 1 byte, 0 bytes past the end of buffer #", block.splitlines()[1])
            self.assertIn(": a GPU fault during the call of this test\n", block)
            self.assertNotIn("pluggy/", block)
            self.assertEqual(block.count(f", {size} bytes ["), 1, block)
            self.assertRegex(block, r"(?s)- Captured stderr call -.*0 bytes past the end of buffer #.*model\.cu:17")
        done = self.run_pytest(self.FAULT, "--lf")
        self.assertEqual(self.outcomes(done), {"failed": 2}, done.stdout)

    def test_what_python_ignores_in_its_path_is_no_error(self) -> None:
        (self.tests / "conftest.py").write_text("import pathlib, sys; sys.path.insert(0, pathlib.Path(__file__).parent)")
        done = self.run_pytest("def test_it(device): device.allocate(16)")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("\ncufence: GPU memory was guarded in 1 of 1 process that used CUDA\n", done.stdout)

    def test_a_forked_child_that_leaves_its_test_is_no_second_worker(self) -> None:
        code = """
            def test_fork():
                child = os.fork()
                if child == 0:
                    raise SystemExit(3)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
            def test_after(device):
                device.allocate(16)
        """
        done = self.run_pytest(code)
        self.assertEqual(self.outcomes(done), {"passed": 2}, done.stdout + done.stderr)

    def test_xdist(self) -> None:
        """Each worker of pytest-xdist has a guarded process of its own, and a fault ends that one alone."""
        code = """
            @pytest.mark.parametrize("number", range(8))
            def test_it(device, number, worker_id):
                with open(f"{number}.ran", "w") as file:
                    file.write(f"{worker_id} {os.getpid()}")
                device.read(device.allocate(4000) + (4000 if number == 3 else 0))
        """
        done = self.run_pytest(code, "-n", "2", "-k", "not 7")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(self.outcomes(done), {"failed": 1, "passed": 6}, done.stdout)
        self.assertRegex(done.stdout, r"_+ test_it\[3\] _+")
        self.assertIn("0 bytes past the end of buffer #", done.stdout)
        self.assertRegex(done.stdout, r"\ncufence: GPU memory was guarded in ([23]) of \1 processes that used CUDA\n")
        ran = [path.read_text().split() for path in sorted(self.tests.glob("*.ran"))]
        self.assertEqual({worker for worker, _ in ran}, {"gw0", "gw1"})
        self.assertIn(len({process for _, process in ran}), (2, 3))

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
        self.assertEqual((done.returncode, self.outcomes(done)), (1, {"failed": 1, "passed": 1}), done.stdout)
        self.assertRegex(done.stdout, r"(?s)_ test_past_the_end _.*0 bytes past the end of buffer #.*model\.cu:17")

    HARMLESS = "def test_it(): pass"

    def test_nothing_guarded(self) -> None:
        """Without a GPU in use the tests pass, and the session does not."""
        for arguments in ([], ["-n", "2"]):
            with self.subTest(arguments=arguments):
                done = self.run_pytest(self.HARMLESS, *arguments)
                self.assertEqual(done.returncode, 87, done.stdout + done.stderr)
                self.assertNotIn("guarded, options", done.stdout)
                self.assertRegex(done.stdout, r"\ncufence: NOTHING WAS GUARDED: no test used CUDA.* \(exit status 87; ")
                done = self.run_pytest(self.HARMLESS, "--no-require-guarded", *arguments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertRegex(done.stdout, r"\ncufence: NOTHING WAS GUARDED: no test used CUDA.*(?<!pass\))\n")
        done = self.run_pytest("def test_it(): assert 0")
        self.assertEqual(done.returncode, 1, "a failure stays one")

    def test_left_to_the_driver(self) -> None:
        done = self.run_pytest("def test_it(device): device.allocate(100)", "--cufence-options", "skip=smaller:1M")
        self.assertEqual(done.returncode, 87, done.stdout + done.stderr)
        self.assertIn("\ncufence: NOTHING WAS GUARDED: every allocation was left to the driver", done.stdout)
        self.assertIn("not guarded: 1 buffer smaller than skip=smaller", done.stderr)

    def test_without_the_flag(self) -> None:
        done = self.run_pytest("def test_it(): assert 'LD_PRELOAD' not in os.environ", switch="-v")
        self.assertEqual((done.returncode, self.outcomes(done)), (0, {"passed": 1}), done.stdout + done.stderr)

    def test_outcomes(self) -> None:
        done = self.run_pytest(
            """
            import warnings
            def test_pass(): warnings.warn("look here", RuntimeWarning)
            def test_fail(): assert 1 == 2
            @pytest.mark.skip(reason="no")
            def test_skip(): pass
            @pytest.mark.xfail
            def test_xfail(): assert 0
            @pytest.fixture
            def broken(): raise ValueError("broken")
            def test_error(broken): pass
            """,
            "-v",
        )
        self.assertEqual(done.returncode, 1, done.stdout)
        expected = {"failed": 1, "passed": 1, "skipped": 1, "xfailed": 1, "warning": 1, "error": 1}
        self.assertEqual(self.outcomes(done), expected, done.stdout)
        self.assertIn("assert 1 == 2", done.stdout)
        self.assertIn("RuntimeWarning: look here", done.stdout)
        self.assertRegex(done.stdout, r"test_it\.py::test_pass PASSED")

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
        done = self.run_pytest(
            """
            @pytest.fixture
            def early(device): device.read(device.allocate(16) + 16)
            @pytest.fixture
            def late(device):
                yield
                device.read(device.allocate(16) + 16)
            def test_setup(early): pass
            def test_teardown(late): pass
            def test_good(device): device.read(device.allocate(16))
            """
        )
        self.assertEqual(self.outcomes(done), {"passed": 2, "error": 2}, done.stdout)
        self.assertIn(": a GPU fault during the setup of this test\n", done.stdout)
        self.assertIn(": a GPU fault during the teardown of this test\n", done.stdout)

    def test_crash(self) -> None:
        done = self.run_pytest(
            """
            def test_one(): pass
            def test_exit(): os._exit(7)
            def test_segfault(): os.kill(os.getpid(), 11)
            def test_last(): pass
            """
        )
        self.assertEqual((done.returncode, self.outcomes(done)), (1, {"failed": 2, "passed": 2}), done.stdout)
        self.assertIn("the process that ran the tests ended during this one: exit status 7", done.stdout)
        self.assertIn("the process that ran the tests ended during this one: signal SIGSEGV", done.stdout)

    def test_crash_with_a_report(self) -> None:
        done = self.run_pytest(
            """
            import time
            def test_abort(device):
                device.fault(device.allocate(16) + 16)
                time.sleep(60)
            """,
            "--cufence-options=on_fault=abort",
        )
        self.assertEqual(self.outcomes(done), {"failed": 1}, done.stdout)
        self.assertIn("ended during this one: signal SIGABRT", done.stdout)
        self.assertIn("0 bytes past the end of buffer #", done.stdout)

    def test_selection(self) -> None:
        done = self.run_pytest(self.FAULT, "-k", "4000 or before")
        self.assertEqual(self.outcomes(done), {"failed": 1, "passed": 1, "deselected": 2}, done.stdout)
        done = self.run_pytest(self.FAULT, "-x")
        self.assertEqual((done.returncode, self.outcomes(done)), (1, {"failed": 1, "passed": 1}), done.stdout)
        self.assertIn("stopping after 1 failures", done.stdout)
        done = self.run_pytest(self.FAULT, "test_it.py::test_after")
        self.assertEqual((done.returncode, self.outcomes(done)), (0, {"passed": 1}), done.stdout)

    def test_collect_only(self) -> None:
        done = self.run_pytest(self.FAULT, "--co", "-q", CUFENCE_LIBRARY="/nonexistent")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("test_it.py::test_past_the_end[4000]", done.stdout.splitlines())

    def test_nothing_to_run(self) -> None:
        self.assertEqual(self.run_pytest(self.FAULT, "-k", "nothing").returncode, 5)

    def test_end_of_all(self) -> None:
        code = """
            def test_one(): pass
            def test_exit(): {}
            def test_not_reached(): pass
        """
        done = self.run_pytest(code.format("pytest.exit('that is it', returncode=9)"))
        self.assertEqual((done.returncode, self.outcomes(done)), (9, {}), done.stdout)
        self.assertIn("_pytest.outcomes.Exit: that is it", done.stdout)
        done = self.run_pytest(code.format("raise KeyboardInterrupt"))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("KeyboardInterrupt", done.stdout)
        self.assertNotIn("failed", done.stdout)

    def test_interrupted(self) -> None:
        """A signal to the main process alone ends the worker too."""
        begin = time.monotonic()
        done = self.run_pytest(
            """
            import pathlib, signal, time
            def test_it():
                pathlib.Path("pid").write_text(str(os.getpid()))
                os.kill(os.getppid(), signal.SIGINT)
                time.sleep(110)
            """
        )
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertLess(time.monotonic() - begin, 100)
        self.assertFalse(Path("/proc", (self.tests / "pid").read_text()).exists())

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

    def test_one_worker_while_all_is_well(self) -> None:
        done = self.run_pytest(
            """
            @pytest.fixture(scope="session")
            def once():
                print("set up", os.getppid(), flush=True)
                yield os.getpid()
                print("torn down", flush=True)
            def test_one(once): assert os.getpid() == once
            def test_two(once): assert os.getpid() == once
            """,
            "-s",
            "--no-require-guarded",
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual((done.stdout.count("set up"), done.stdout.count("torn down")), (1, 1))

    def test_environment(self) -> None:
        done = self.run_pytest(
            """
            def test_it():
                assert os.environ["LD_PRELOAD"].endswith("/libcufence_preload.so:libc.so.6")
                assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == "backend:cudaMallocAsync,max_split_size_mb:64"
                assert os.environ["CUFENCE_OPTIONS"].split(",")[1:] == ["align=32", "side=start", "uaf=strict"]
                assert "CUFENCE_PYTEST_WORKER" not in os.environ
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
        (self.tests / "conftest.py").write_text(
            "def pytest_addoption(parser):\n    parser.addoption('--cov', dest='cov_source', action='append')\n"
        )
        for arguments, words in (
            (["--cufence-options=uaf=strickt"], "cufence: --cufence-options: uaf=strickt is not allowed"),
            (["--cov=here"], "--cufence runs the tests in another process, which --cov does not see"),
            (["--pdb"], "--cufence runs the tests in another process, where --pdb and --trace have no terminal"),
        ):
            done = self.run_pytest(self.FAULT, *arguments)
            self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
            self.assertIn(words, done.stderr)
        done = self.run_pytest("", "--cufence-options=uaf=strict", switch="-q")
        self.assertIn("--cufence-options has no effect without --cufence", done.stderr)
