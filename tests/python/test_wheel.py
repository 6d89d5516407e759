"""The wheel in a fresh virtual environment: its contents, the start-up hook, the command, CMake, and its removal."""

from __future__ import annotations

import glob
import importlib.util
import json
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import unittest
import venv
import zipfile
from pathlib import Path
from typing import ClassVar

import simulated
import standin
import test_pytest_plugin
from standin import BUILD

LIBRARIES = ["libcufence.so", "libcufence_preload.so", "libcufence_sim.so"]
# Libraries that every glibc-based Linux has; the wheel would have to contain any other. Not libstdc++.so.6: if the system's
# is loaded first, imports that need a conda environment's newer one fail.
SYSTEM_LIBRARIES = {"libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "libz.so.1"}
SYSTEM_LIBRARIES |= {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "librt.so.1"}
NO_NETWORK = re.compile(r"Temporary failure in name resolution|Network is unreachable|Failed to establish a new connection")


# A compiler launcher for CMake, `python3 take_objects.py BUILD ...`: takes an object from another build of the same tree, where it has the same
# path, instead of compiling it again. One that is missing or older than its source is compiled.
_TAKE_OBJECTS = """
import os
import shutil
import sys

build, command = sys.argv[1], sys.argv[2:]
if "-c" in command and "-o" in command:
    source, made = command[command.index("-c") + 1], command[command.index("-o") + 1]
    there = os.path.join(build, made)
    if os.path.exists(there) and os.path.getmtime(there) >= os.path.getmtime(source):
        shutil.copyfile(there, made)
        if "-MF" in command:
            with open(command[command.index("-MF") + 1], "w") as dependencies:
                dependencies.write(f"{made}: {source}\\n")
        sys.exit()
os.execvp(command[0], command)
"""

# The notebook's side. The environment has re-executed this interpreter too, and a kernel keeps its process ID.
_NOTEBOOK = """
from jupyter_client.manager import start_new_kernel

def cell(code):
    answer = []
    client.execute_interactive(
        code, timeout=60, output_hook=lambda message: answer.append(message["content"].get("text", "")))
    return "".join(answer).strip()

manager, client = start_new_kernel(kernel_name="python3", startup_timeout=60)
print(cell("import torch"))
print("the kernel, started once:", cell("import os; print(os.getpid())") == str(manager.provisioner.process.pid))
client.stop_channels()
manager.shutdown_kernel(now=True)
"""


# What the pages run: an allocation and a launch on the simulated device, opened as a program opens the CUDA driver.
_TRAIN = """
import simulated

def test_step():
    device = simulated.Driver("libcuda.so.1")
    device.read(device.allocate(1000))
    device.synchronize()

if __name__ == "__main__":
    test_step()
"""


def typed_commands() -> list[str]:
    """The commands of README.md and docs/install.md, those of its tables too, that need no GPU, network or checkout."""
    found = []
    for page in ("README.md", "docs/install.md"):
        text = (standin.ROOT / page).read_text()
        for block in re.findall(r"^```\n(.*?)^```$", text, re.M | re.S):
            found += [line.partition("  #")[0].strip() for line in block.splitlines()]
        for row in re.findall(r"^\| [^|`]+ \|(.*?)\|", text, re.M):
            found += re.findall(r"`(cufence [^`]+)`", row)
    return [line for line in dict.fromkeys(found) if not line.startswith(("pip ", "./dev ", "cmake "))]


def run(*command: str | Path, **named: object) -> subprocess.CompletedProcess[str]:
    return standin.run(*command, timeout=900, **named)


def files_below(folder: Path) -> set[str]:
    """Returns all files and folders, except those that an interpreter or pip leaves behind: pip keeps empty folders of share/."""
    paths = (path for path in folder.rglob("*") if "/pip" not in str(path))
    return {str(path.relative_to(folder)) for path in paths if path.is_file() or path.relative_to(folder).parts[0] != "share"}


@unittest.skipUnless((BUILD / "CMakeCache.txt").exists(), "build first")
@unittest.skipUnless(importlib.util.find_spec("ensurepip"), "no ensurepip: install python3-venv")
class Wheel(standin.InOneFolder):
    python: ClassVar[Path]
    wheel: ClassVar[Path]
    torch: ClassVar[list[Path]]
    before: ClassVar[set[str]]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        venv.create(cls.folder / "venv", with_pip=True, symlinks=True)
        cls.python = cls.folder / "venv" / "bin" / "python"
        run(cls.python, "-c", "import json")  # lets the interpreter write its own bytecode first
        cls.build()
        done = cls.pip("install", "--no-deps", "--no-index", cls.wheel)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)

    @classmethod
    def pip(cls, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        environment = standin.clean_environment(PIP_DISABLE_PIP_VERSION_CHECK="1")
        return run(cls.python, "-m", "pip", *arguments, env=environment, cwd=cls.folder)

    @classmethod
    def build(cls) -> None:
        """Packages the build that is there: its objects are linked anew, as a wheel has them."""
        done = cls.pip("install", "--quiet", "scikit-build-core>=1.0")
        if done.returncode and NO_NETWORK.search(done.stdout + done.stderr):
            raise unittest.SkipTest("the build needs scikit-build-core from PyPI, which cannot be reached")
        cls.before = files_below(cls.folder / "venv")
        cache = (BUILD / "CMakeCache.txt").read_text()
        (cuda,) = re.findall(r"^CUFENCE_CUDA_INCLUDE_DIR:PATH=(.*)$", cache, re.M)
        (cls.folder / "take_objects.py").write_text(_TAKE_OBJECTS)
        launcher = f"{sys.executable};{cls.folder / 'take_objects.py'};{BUILD}"
        cls.torch = sorted((standin.ROOT / ".deps" / "torch").glob("2.11"))  # those for one version, if they are there
        (cls.folder / "headers").mkdir()
        for headers in cls.torch:
            (cls.folder / "headers" / headers.name).symlink_to(headers)
        defines = {
            "CUFENCE_TORCH_HEADERS": str(cls.folder / "headers"),
            "CMAKE_SYSTEM_NAME": "Linux",  # a cross build, as cmake/wheels.py makes it
            "CMAKE_SYSTEM_PROCESSOR": platform.machine(),
            "CMAKE_C_COMPILER_LAUNCHER": launcher,
            "CMAKE_CXX_COMPILER_LAUNCHER": launcher,
            "CMAKE_SHARED_LINKER_FLAGS": "-fno-lto",  # the objects hold machine code, too
            "CUFENCE_CUDA_INCLUDE_DIR": cuda,
            "CUFENCE_NVCC": "OFF",  # the kernels are in the objects
        }
        settings = [f"-Cbuild-dir={cls.folder / 'build'}", "-Ccmake.build-type=Debug"]
        settings += [f"-Ccmake.define.{name}={value}" for name, value in defines.items()]
        done = cls.pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", cls.folder / "wheels", *settings, standin.ROOT)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        (cls.wheel,) = (cls.folder / "wheels").glob("*.whl")

    def packages(self) -> Path:
        (found,) = (self.folder / "venv" / "lib").glob("python*/site-packages")
        return found

    def run_python(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run(self.python, "-c", code, env=standin.clean_environment(**environment), cwd=self.folder)

    def test_content(self) -> None:
        names = set(zipfile.ZipFile(self.wheel).namelist())
        self.assertRegex(self.wheel.name, r"^cufence-[\d.]+-py3-none-linux_\w+\.whl$")
        tops = {name.split("/")[0] for name in names}
        self.assertEqual({top for top in tops if not top.endswith((".dist-info", ".data"))}, {"cufence", "cufence-startup.pth"})
        for name in (
            *(f"lib/{library}" for library in LIBRARIES),
            "bin/cufence",
            "include/cufence.h",
            "cmake/cufence-config.cmake",
            "demo.cu",
            "_bootstrap/sitecustomize.py",
            "py.typed",
            *(path.name for path in (standin.PACKAGE / "cufence").glob("*.py")),
        ):
            self.assertIn(f"cufence/{name}", names)

    def test_what_comes_with_it(self) -> None:
        """The manual page and completions where man and bash look for them, and the pages that messages name."""
        share = self.folder / "venv" / "share"
        for name in ("man/man1/cufence.1", "bash-completion/completions/cufence"):
            self.assertTrue((share / name).is_file(), name)
        done = run(self.folder / "venv" / "bin" / "cufence", "--help", env=standin.clean_environment())
        pages = self.packages() / "cufence" / "docs"
        self.assertIn(f"\n  {pages.resolve()}\n", done.stdout)
        for name in ("report.md", "guide/jobs.md", "skill.md", "examples/first.c"):
            self.assertTrue((pages / name).is_file(), name)

    def test_needs_nothing_else(self) -> None:
        package = self.packages() / "cufence"
        for file in [*(package / "lib").glob("*.so"), package / "bin" / "cufence"]:
            dynamic = run("readelf", "-d", file).stdout
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
            beside = {path.name for path in (package / "lib").iterdir()}
            self.assertLessEqual(needed, SYSTEM_LIBRARIES | beside, file.name)
            if needed & beside:
                self.assertIn("$ORIGIN", dynamic, file.name)
            self.assertNotIn(str(self.folder), dynamic)

    def test_allocators_of_torch(self) -> None:
        """They need what PyTorch has loaded and nothing of the machine where the wheel was made; every symbol is looked up at once."""
        made = sorted((self.packages() / "cufence" / "lib" / "torch").glob("*"))
        self.assertEqual([path.name for path in made], [f"libcufence-torch-{headers.name}.so" for headers in self.torch])
        if not made:
            self.skipTest("no headers of PyTorch: python3 cmake/torch_headers.py fetches them")
        dynamic = run("readelf", "-d", made[0]).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        self.assertLessEqual({"libc10.so", "libc10_cuda.so", "libcufence.so"}, needed)
        self.assertLessEqual(needed, SYSTEM_LIBRARIES | {"libc10.so", "libc10_cuda.so", "libcufence.so", "libstdc++.so.6"})
        self.assertIn("BIND_NOW", dynamic)
        self.assertIn(" U __gxx_personality_v0", run("nm", "-D", made[0]).stdout, "exceptions are those of PyTorch's C++ library")
        self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)")

    def test_hook(self) -> None:
        standin.write_recording_torch(self.packages())
        try:
            done = self.run_python("import torch", PYTORCH_CUDA_ALLOC_CONF="backend:cufence,cufence_uaf:strict")
        finally:
            shutil.rmtree(self.packages() / "torch")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertTrue(found["preloaded"])
        self.assertEqual(found["environment"]["PYTORCH_CUDA_ALLOC_CONF"], "backend:cudaMallocAsync")
        self.assertEqual(found["environment"]["CUFENCE_OPTIONS"], "uaf=strict")
        libraries = self.packages() / "cufence" / "lib"
        self.assertEqual(found["environment"]["LD_PRELOAD"], str(libraries / "libcufence_preload.so"))
        done = self.run_python("from cufence import _library; print(_library.load()._name)")
        self.assertEqual(done.stdout.strip(), str(libraries / "libcufence.so"), done.stderr)

    def test_jupyter_kernel(self) -> None:
        """A kernel of a Jupyter that has no cufence: the kernel is re-executed, and answers afterwards."""
        python = self.folder / "jupyter" / "bin" / "python"
        venv.create(self.folder / "jupyter", with_pip=False, symlinks=True)
        done = self.pip("--python", python, "install", "--quiet", self.wheel, "ipykernel")
        if done.returncode and NO_NETWORK.search(done.stdout + done.stderr):
            self.skipTest("ipykernel is on PyPI, which cannot be reached")
        self.assertEqual(done.returncode, 0, done.stderr)
        standin.write_recording_torch(next((self.folder / "jupyter" / "lib").glob("python*/site-packages")))
        (self.folder / "notebook.py").write_text(_NOTEBOOK)
        environment = standin.clean_environment(PYTORCH_CUDA_ALLOC_CONF="backend:cufence", HOME=str(self.folder))
        done = run(python, "notebook.py", env=environment, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        found, answer = done.stdout.splitlines()
        kernel = json.loads(found)
        self.assertTrue(kernel["preloaded"])
        self.assertIn("ipykernel_launcher", " ".join(kernel["original"]))
        self.assertEqual(answer, "the kernel, started once: True")

    def test_command(self) -> None:
        command = self.folder / "venv" / "bin" / "cufence"
        environment = standin.clean_environment(CUFENCE_DRIVER="sim")
        done = run(command, "demo", "--keep", self.folder / "faults", env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        for fact in ("past the end of buffer #", "4 bytes past the end: 3997", " offsets[row + 1] = end;", "plant_overrun"):
            self.assertIn(fact, done.stderr)
        self.assertNotIn(str(standin.ROOT), done.stderr, "the folder of the build")
        self.assertNotRegex(done.stderr, r"  \((?!_Z)\S+\+0x", "a frame without a name")
        done = run(command, "replay", self.folder / "faults", env=standin.clean_environment())
        self.assertEqual(done.returncode, 86, done.stderr)
        done = run(command, "run", "--", command, "demo", "--program", "overrun", env=standin.clean_environment())
        self.assertIn(" offsets[row + 1] = end;", done.stderr)
        done = run(self.python, "-m", "cufence", "no-such-command", env=environment)
        self.assertEqual(done.returncode, 2)

    def test_doctor(self) -> None:
        done = run(self.folder / "venv" / "bin" / "cufence", "doctor", env=standin.clean_environment(CUFENCE_DRIVER="sim"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\nyes +hooks \(dlsym\) .*\n(.*\n)*yes +hooks \(address\) ")
        self.assertNotIn("\nNO ", done.stdout)

    def test_what_the_pages_type(self) -> None:
        """Each command, as it stands there, with a program that needs no GPU."""
        folder = self.folder / "typed"
        folder.mkdir()
        (folder / "libcuda.so.1").symlink_to(self.packages() / "cufence" / "lib" / "libcufence_sim.so")
        plugins = run(test_pytest_plugin.python_with_pytest(), "-c", "import pytest; print(pytest.__path__[0])").stdout
        scripts = {"pytest": '#!/bin/sh\nexec python -m pytest "$@"\n', "app": f"#!{self.python}{_TRAIN}"}
        scripts |= {"train.py": _TRAIN, "test_train.py": _TRAIN, "a.out": scripts["app"]}
        for name, text in scripts.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        environment = standin.clean_environment(
            LD_LIBRARY_PATH=str(folder),
            PYTHONPATH=f"{standin.ROOT / 'tests' / 'python'}:{Path(plugins.strip()).parent}",
            SIMULATED_KERNEL=str(simulated.build(folder, "cc")),
        )
        environment["PATH"] = f"{folder}:{self.python.parent}:{environment['PATH']}"
        commands = typed_commands()
        self.assertGreater(len(commands), 15)
        for command in commands:
            program = "cufence demo" if "kept" in command else "python train.py"
            dump = "".join(glob.glob(f"{folder}/kept/*/dump.gz"))
            done = run("sh", "-c", command.replace("...", program).replace("FILE", dump), env=environment, cwd=folder)
            with self.subTest(command):
                self.assertEqual(done.returncode, 86 if "kept" in command or "--program" in command else 0, done.stdout + done.stderr)
                self.assertNotIn("NOTHING WAS GUARDED", done.stderr)

    def test_cmake(self) -> None:
        project = self.folder / "project"
        shutil.copytree(self.packages() / "cufence" / "docs" / "examples", project)
        (typed,) = re.findall(r"^cmake -B build -Dcufence_DIR=.*$", (standin.ROOT / "docs" / "install.md").read_text(), re.M)
        environment = standin.clean_environment(CMAKE_GENERATOR="Ninja")
        environment["PATH"] = f"{self.python.parent}:{environment['PATH']}"
        for command in (typed, "cmake --build build"):
            done = run("sh", "-c", command, env=environment, cwd=project)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = run(project / "build" / "example_first", env=standin.clean_environment(CUFENCE_DRIVER="sim"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_uninstall(self) -> None:
        use = "import cufence; cufence.label; cufence.stats"
        self.run_python(use, PYTORCH_CUDA_ALLOC_CONF="backend:cufence")
        run(self.python, "-OO", "-c", use)
        done = self.pip("uninstall", "--yes", "cufence")
        self.addCleanup(self.pip, "install", "--no-deps", "--no-index", self.wheel)  # for the other tests
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(files_below(self.folder / "venv") - self.before, set())
        done = self.run_python("print('as before')", PYTORCH_CUDA_ALLOC_CONF="backend:cufence")
        self.assertEqual((done.stdout, done.stderr), ("as before\n", ""))

    @unittest.skipUnless((standin.ROOT / ".git").exists(), "not a checkout")
    def test_sdist(self) -> None:
        code = f"import scikit_build_core.build as b; print(b.build_sdist({str(self.folder)!r}))"
        done = run(self.python, "-c", code, env=standin.clean_environment(), cwd=standin.ROOT)
        self.assertEqual(done.returncode, 0, done.stderr)
        archive = self.folder / done.stdout.split()[-1]
        with tarfile.open(archive) as file:
            names = {name.partition("/")[2] for name in file.getnames()}
        listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=standin.ROOT).stdout.split("\n")
        self.assertEqual(names - set(listed), {"PKG-INFO"})
        self.assertLessEqual({"CMakeLists.txt", "pyproject.toml", "allocator/api/public.c", "include/cufence.h"}, names)
