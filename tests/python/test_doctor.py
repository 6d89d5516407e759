"""`cufence doctor` on Python installations: folders that look like one."""

from __future__ import annotations

import json
import os
import subprocess
import unittest

import standin
from standin import COMMAND

import cufence

PACKAGES = standin.PACKAGE

# Importing it fails the test, because it leaves a marker.
BOMB = "import pathlib\npathlib.Path(__file__).with_name('imported').touch()\n"


@unittest.skipUnless(COMMAND.is_file(), f"no {COMMAND}")
class Doctor(standin.InFolder):
    def install(self, name: str, version: str, files: dict[str, str]) -> None:
        metadata = self.folder / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        standin.write_files(self.folder, files)

    def checks(self, **environment: str) -> dict[str, dict[str, str]]:
        """Returns the doctor's checks by name."""
        unwanted = ("PYTORCH_", "CUFENCE_", "LD_PRELOAD")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        path = os.pathsep.join([str(self.folder), str(PACKAGES)])
        environment = {**clean, "CUFENCE_DRIVER": "sim", "PYTHONPATH": path, **environment}
        done = subprocess.run([COMMAND, "doctor", "--json"], env=environment, capture_output=True, text=True, timeout=120)
        document = json.loads(done.stdout)
        self.assertEqual(document["can_work"], done.returncode == 0, done.stderr)
        return {check["check"]: check for check in document["checks"]}

    def expect(self, check: dict[str, str], found: str, detail: str) -> None:
        self.assertEqual(check["found"], found, check)
        self.assertIn(detail, check["detail"])

    def test_finds_pytorch_without_importing_it(self) -> None:
        self.install("torch", "2.11.0+cu130", {"torch/__init__.py": BOMB})
        checks = self.checks()
        self.expect(checks["PyTorch"], "yes", "2.11.0+cu130")
        self.expect(checks["cufence package"], "yes", f"{cufence.__version__}, {PACKAGES / 'cufence'}")
        self.assertEqual(list(self.folder.rglob("imported")), [])

    def test_a_build_without_cuda(self) -> None:
        self.install("torch", "2.11.0+cpu", {"torch/__init__.py": ""})
        self.expect(self.checks()["PyTorch"], "no", "built without CUDA")

    def test_a_version_without_an_allocator_of_its_own(self) -> None:
        self.install("torch", "2.10.0", {"torch/__init__.py": ""})
        self.expect(self.checks()["PyTorch"], "no", "2.10.0: its back end cudaMallocAsync is taken")

    def test_a_package_of_another_version(self) -> None:
        self.install("cufence", "9.9", {"cufence/__init__.py": "__version__ = '9.9'\n", "cufence-startup.pth": ""})
        checks = self.checks()
        self.expect(checks["cufence package"], "no", f"it is version 9.9, this program is {cufence.__version__}")
        self.expect(checks["start-up hook"], "yes", "in place")

    def test_a_setting_that_asks_for_cufence_starts_no_interpreter_anew(self) -> None:
        self.install("torch", "2.11.0", {"torch/__init__.py": ""})
        checks = self.checks(PYTORCH_CUDA_ALLOC_CONF="backend:cufence,cufence_uaf:strict")
        self.expect(checks["settings"], "yes", "backend:cufence,cufence_uaf:strict asks for cufence")
        self.assertIn("python3", checks)

    def test_an_interpreter_that_says_nothing_of_use(self) -> None:
        python = self.folder / "python3"
        python.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
        python.chmod(0o755)
        checks = self.checks(PATH=f"{self.folder}{os.pathsep}{os.environ['PATH']}")
        self.expect(checks["python3"], "no", "broken")
