"""The CI jobs of docs/guide/jobs.md: their shell steps as they stand, on the simulated device.

A stand-in for `pip` only checks that the wheel is there; `cufence` and `pytest` are those of the build. What `uses:` names is left out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar

import simulated
import standin
from standin import BUILD, LIBCUDA, ROOT
from test_pytest_plugin import PRELUDE, python_with_pytest

try:
    import yaml
except ImportError:
    yaml = None  # type: ignore[assignment]

PROGRAM = BUILD / "tests/programs/program_linked"
JOBS = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/guide/jobs.md").read_text(), re.DOTALL | re.MULTILINE)] if yaml else []
UNLESS_CANCELLED = "${{ !cancelled() }}"
TEST = PRELUDE + "\ndef test_clean(device):\n    device.allocate(4000)\n"


@unittest.skipUnless(yaml, "needs the package yaml (PyYAML), to read the jobs")
@unittest.skipUnless(PROGRAM.is_file(), f"no {PROGRAM.name}: build first")
class Jobs(standin.InOneFolder):
    environment: ClassVar[dict[str, str]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        python = python_with_pytest()
        tools = cls.folder / "tools"
        tools.mkdir()
        cls.tool(tools / "pip", 'test "$1" = install && test -f "$2"')
        cls.tool(tools / "cufence", f'exec "{BUILD}/bin/cufence" "$@"')
        cls.tool(tools / "pytest", f'PYTHONPATH="{standin.PACKAGE}:{Path(__file__).parent}" exec "{python}" -m pytest -p cufence.pytest_plugin "$@"')
        cls.environment = standin.clean_environment(
            PATH=f"{tools}:{os.environ['PATH']}", CUFENCE_LIBRARY=str(standin.copy_library(cls.folder / "lib")), CUFENCE_DRIVER="sim",
            SIMULATED_KERNEL=str(simulated.build(cls.folder, standin.c_compiler())), LD_LIBRARY_PATH=str(LIBCUDA),
        )

    @staticmethod
    def tool(path: Path, command: str) -> None:
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o755)

    def project(self, program: str) -> Path:
        """A checkout whose tests/gpu_tests is a command."""
        project = Path(tempfile.mkdtemp(dir=self.folder))
        (project / "ci").mkdir()
        (project / "ci/cufence-0-py3-none-any.whl").touch()
        (project / "tests/python").mkdir(parents=True)
        (project / "tests/python/test_it.py").write_text(TEST)
        self.tool(project / "tests/gpu_tests", f"exec {program}")
        return project

    def run_steps(self, project: Path, steps: list[dict[str, Any]]) -> list[int | None]:
        """The exit status of each shell step as a runner of GitHub runs them, None for one that was left out."""
        statuses: list[int | None] = []
        for step in steps:
            if any(statuses) and step.get("if") != UNLESS_CANCELLED:
                statuses.append(None)
                continue
            done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", step["run"]], cwd=project, env=self.environment, capture_output=True, text=True, timeout=120)
            self.said = done.stdout + done.stderr
            statuses.append(done.returncode)
        return statuses

    def github(self, program: str) -> tuple[Path, list[int | None]]:
        project = self.project(program)
        steps = JOBS[0]["jobs"]["cufence"]["steps"]
        self.assertEqual({step["if"] for step in steps if "if" in step}, {UNLESS_CANCELLED})
        return project, self.run_steps(project, [step for step in steps if "run" in step])

    def gitlab(self, program: str) -> tuple[Path, list[int | None]]:
        project = self.project(program)
        statuses, _ = (self.run_steps(project, [{"run": line} for line in JOBS[1]["cufence"][part]]) for part in ("script", "after_script"))
        for path in JOBS[1]["cufence"]["artifacts"]["paths"]:
            self.assertTrue((project / path).stat().st_size, path)
        return project, statuses

    def results(self, project: Path) -> int:
        """Of the SARIF file, which the page agrees with."""
        (run,) = json.loads((project / "found.sarif").read_text())["runs"]
        page = (project / "found.html").read_text()
        self.assertEqual(len(json.loads(page.split('id="data">')[1].split("</script>")[0])), len(run["results"]))
        return len(run["results"])

    def test_there_are_two(self) -> None:
        self.assertEqual(len(JOBS), 2)

    def test_a_clean_run_passes(self) -> None:
        for job in (self.github, self.gitlab):
            project, statuses = job(f"{PROGRAM} allocations")
            self.assertEqual(set(statuses), {0}, self.said)
            self.assertEqual(self.results(project), 0)

    def test_a_finding_fails_the_job_and_is_in_each_file(self) -> None:
        project, statuses = self.github(f"{PROGRAM} beside async -4 0")
        self.assertEqual((statuses, self.results(project)), ([0, 0, 86, 86], 1), self.said)
        project, statuses = self.gitlab(f"{PROGRAM} beside async -4 0")
        self.assertEqual((statuses, self.results(project)), ([0, 86], 1), self.said)

    def test_nothing_guarded_fails_the_job(self) -> None:
        _, statuses = self.github("true")
        self.assertEqual(statuses, [0, 0, 87, 0], self.said)
        _, statuses = self.gitlab("true")
        self.assertEqual(statuses, [0, 87], self.said)
        self.assertIn("0 findings in 0 reports; NOTHING WAS GUARDED: ", self.said)

    def test_a_crash_leaves_the_files(self) -> None:
        project, statuses = self.gitlab("sh -c 'kill -9 $$'")
        self.assertEqual((statuses, self.results(project)), ([0, -9], 0), self.said)
