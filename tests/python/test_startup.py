"""The start-up hook for PYTORCH_CUDA_ALLOC_CONF=backend:cufence, with a stand-in for PyTorch that records what it finds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import unittest
import venv
from pathlib import Path
from typing import Any, ClassVar

import simulated
import standin

CUDA = "PYTORCH_CUDA_ALLOC_CONF"
GENERAL = "PYTORCH_ALLOC_CONF"


@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Hook(standin.InOneFolder):
    """A virtual environment with the hook, the package and the stand-in."""

    python: ClassVar[str]
    library: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.library = standin.copy_library(cls.folder / "lib")
        venv.create(cls.folder / "venv", with_pip=False, symlinks=True)
        cls.python = str(cls.folder / "venv" / "bin" / "python")
        packages = next((cls.folder / "venv" / "lib").glob("python*/site-packages"))
        shutil.copy(standin.PACKAGE / "cufence-startup.pth", packages)
        (packages / "a.pth").write_text(f"{standin.PACKAGE}\n")  # sorts before the hook, so it is read first
        standin.write_recording_torch(packages)
        (cls.folder / "script.py").write_text("import torch\n")

    def run_it(
        self, *arguments: str, text: str | None = None, more: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = standin.clean_environment(**{"CUFENCE_LIBRARY": str(self.library), **(more or {})})
        return standin.run(self.python, *arguments, env=environment, input=text, cwd=self.folder)

    def found(self, *arguments: str, text: str | None = None, **more: str) -> dict[str, Any]:
        """Returns what the stand-in found, in a run that succeeds."""
        done = self.run_it(*arguments, text=text, more=more)
        self.assertEqual(done.returncode, 0, done.stderr)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
        found["stderr"] = done.stderr
        return found

    def refused(self, status: int = 2, **more: str) -> str:
        done = self.run_it("-c", "import torch", more=more)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr

    def test_not_asked_for(self) -> None:
        for more in ({}, {CUDA: "expandable_segments:True"}, {GENERAL: "backend:native"}):
            found = self.found("-c", "import torch, sys; assert 'cufence._startup' not in sys.modules", **more)
            self.assertFalse(found["preloaded"])
            self.assertEqual(found["environment"][CUDA], more.get(CUDA))

    def test_restarts(self) -> None:
        for variable in (CUDA, GENERAL):
            found = self.found("-c", "import torch", **{variable: "backend:cufence"})
            self.assertTrue(found["preloaded"])
            environment = found["environment"]
            self.assertEqual(environment[variable], "backend:cudaMallocAsync")
            self.assertEqual(environment["LD_PRELOAD"], str(self.library.with_name("libcufence_preload.so")))
            self.assertIsNone(environment["CUFENCE_OPTIONS"])
            self.assertIsNone(environment["CUFENCE_RESTARTED"], "no child inherits the mark")
            self.assertEqual((found["prefix"], found["stderr"]), (str(self.folder / "venv"), ""))

    def test_names_cufence_without_asking(self) -> None:
        """The hook only searches for a word; `cufence run` interprets it, and runs the interpreter unchanged."""
        for text in ("a:[backend:cufence]", "expandable_segments:True,a:[cufence]"):
            found = self.found("-c", "import torch", **{CUDA: text})
            environment = found["environment"]
            self.assertEqual((found["preloaded"], environment[CUDA], found["stderr"]), (False, text, ""))
            self.assertEqual((environment[GENERAL], environment["CUFENCE_RESTARTED"]), (None, None))

    def test_ways_to_start(self) -> None:
        (self.folder / "module.py").write_text("import torch\n")
        console = self.folder / "console"
        console.write_text(f"#!{self.python}\nimport torch\n")
        console.chmod(0o755)
        ask = {CUDA: "backend:cufence"}
        for arguments, text, expected in (
            (["script.py", "a b", "--flag"], None, ["script.py", "a b", "--flag"]),
            (["-m", "module", "x"], None, [str(self.folder / "module.py"), "x"]),
            (["-c", "import torch", "é", ""], None, ["-c", "é", ""]),
            (["-", "y"], "import torch\n", ["-", "y"]),
            ([], "import torch\n", [""]),
        ):
            found = self.found(*arguments, text=text, **ask)
            self.assertTrue(found["preloaded"], arguments)
            self.assertEqual(found["arguments"], expected)
        environment = standin.clean_environment(CUFENCE_LIBRARY=str(self.library), **ask)
        process = subprocess.Popen([str(console), "z"], env=environment, stdout=subprocess.PIPE, text=True)
        found = json.loads(process.communicate(timeout=60)[0])
        self.assertEqual((found["preloaded"], found["arguments"], found["pid"]), (True, [str(console), "z"], process.pid))

    def test_flags(self) -> None:
        found = self.found("-X", "dev", "-W", "ignore::UserWarning", "-OO", "-E", "script.py", **{CUDA: "backend:cufence"})
        self.assertTrue(found["preloaded"])
        self.assertEqual(found["flags"], {"optimize": 2, "dev_mode": True, "ignore_environment": 1, "isolated": 0})
        self.assertIn("ignore::UserWarning", found["warnoptions"])
        found = self.found("-I", "script.py", **{CUDA: "backend:cufence"})
        self.assertEqual((found["preloaded"], found["flags"]["isolated"]), (True, 1))

    def test_children(self) -> None:
        """Of a program that asks for cufence, and of a plain one that asks for its child."""
        for change, settings in (
            ("pop('CUFENCE_LIBRARY')", {CUDA: "backend:cufence"}),
            ("update(PYTORCH_CUDA_ALLOC_CONF='backend:cufence')", {}),
        ):
            (self.folder / "parent.py").write_text(
                "import multiprocessing, os\n"
                "def work():\n"
                "    import torch\n"
                "if __name__ == '__main__':\n"
                f"    os.environ.{change}\n"
                "    process = multiprocessing.get_context('spawn').Process(target=work)\n"
                "    process.start(); process.join()\n"
                "    assert process.exitcode == 0\n"
            )
            self.assertTrue(self.found("parent.py", **settings)["preloaded"], change)

    def test_preloaded_already(self) -> None:
        preload = str(self.library.with_name("libcufence_preload.so"))
        found = self.found("-c", "import torch", LD_PRELOAD=preload, **{CUDA: "backend:cufence,cufence_side:start"})
        self.assertEqual(found["environment"][CUDA], "backend:cudaMallocAsync")
        self.assertEqual(found["environment"]["CUFENCE_OPTIONS"], "side=start")
        self.assertEqual(found["environment"]["LD_PRELOAD"], preload)

    def test_same_library(self) -> None:
        """The library next to the preload library is used, even if another one is named."""
        code = "import torch; from cufence import _library; print(_library.load()._name)"
        done = self.run_it("-c", code, more={CUDA: "backend:cufence"})
        self.assertEqual(done.stdout.splitlines()[-1], str(self.library), done.stderr)
        preload = str(self.library.with_name("libcufence_preload.so"))
        done = self.run_it("-c", code, more={"LD_PRELOAD": preload, "CUFENCE_LIBRARY": str(standin.LIBRARY)})
        self.assertEqual(done.stdout.splitlines()[-1], str(self.library), done.stderr)

    def test_program(self) -> None:
        """From the variable to the report, in a program that opens the CUDA driver itself."""
        kernel = simulated.build(self.folder, standin.c_compiler())
        shutil.copy(Path(simulated.__file__), self.folder)
        (self.folder / "libcuda.so.1").symlink_to(self.library.with_name("libcufence_sim.so"))
        (self.folder / "program.py").write_text(
            "import simulated\n"
            "driver = simulated.Driver('libcuda.so.1')\n"
            "import cufence\n"
            "with cufence.label('weights'):\n"
            "    address = driver.allocate(4000)\n"
            "assert cufence.describe(address)['buffer']['size'] == 4000\n"
            "driver.read(address + 3999)\n"
            "driver.synchronize()\n"
            "assert cufence.last_report() is None\n"
            "driver.read(address + 4000)\n"
            "try:\n"
            "    driver.synchronize()\n"
            "except RuntimeError as error:\n"
            "    print(error)\n"
            "assert cufence.wait_reports(60) and cufence.fault_count() == 1\n"
            "report = cufence.last_report()\n"
            "kernel, buffer = report['kernel'], report['buffer']\n"
            "print(report['kind'], kernel['name'], kernel['file'], kernel['line'], buffer['label'], buffer['distance'])\n"
        )
        more = {"CUFENCE_DRIVER": "sim", "SIMULATED_KERNEL": str(kernel), "LD_LIBRARY_PATH": str(self.folder)}
        done = self.run_it("program.py", more={**more, GENERAL: "backend:cufence,cufence_on_fault:error/0"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            "cuCtxSynchronize: CUresult 700", "overrun read_byte model.cu 17 weights {'bytes': 0, 'from': 'past the end'}"
        ])

    def test_wrong_options(self) -> None:
        """`cufence run` refuses them; unit.run has the others."""
        message = self.refused(**{CUDA: "backend:cufence,cufence_uav:strict"})
        self.assertRegex(message, rf"^cufence run: {CUDA}: .*'uav', did you mean 'uaf'\?.*\n$")

    def test_loader_refuses(self) -> None:
        library = standin.copy_library(self.folder / "bad" / "lib")
        library.with_name("libcufence_preload.so").write_text("not a library")
        message = self.refused(CUFENCE_LIBRARY=str(library), **{CUDA: "backend:cufence"})
        self.assertIn("libcufence_preload.so into LD_PRELOAD, but the dynamic loader has not taken it", message)

    def test_installation_incomplete(self) -> None:
        """Without the command; unit.run has one without the preload library."""
        library = standin.copy_library(self.folder / "alone" / "lib")
        (library.parents[1] / "bin" / "cufence").unlink()
        message = self.refused(CUFENCE_LIBRARY=str(library), **{CUDA: "backend:cufence"})
        self.assertIn(f"there is no {library.parents[1]}/bin/cufence: reinstall cufence", message)

    def check_goes_on(self, *command: str, settings: str = "backend:cufence", **named: Any) -> str:
        """Checks that a program that embeds Python runs the code and only fails to import torch. Returns the reason."""
        code = (
            "import os, sys; print('went on', os.environ['PYTORCH_CUDA_ALLOC_CONF'], os.environ.get('CUFENCE_OPTIONS'))\n"
            "try:\n    import torch\nexcept ImportError as error:\n    print(error)\n"
        )
        environment = standin.clean_environment(
            PYTHONHOME=sys.base_prefix,
            PYTHONPATH=str(standin.PACKAGE / "cufence" / "_bootstrap"),
            CUFENCE_LIBRARY=str(self.library),
            PYTORCH_CUDA_ALLOC_CONF=settings,
        )
        done = subprocess.run([*command, code], env=environment, capture_output=True, text=True, timeout=60, **named)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        first, _, why = done.stdout.partition("\n")
        self.assertEqual(first, f"went on {settings} None", "children find the environment as it was")
        return why

    def test_another_program(self) -> None:
        """The program is not the interpreter in sys.executable, as in a program that embeds Python."""
        why = self.check_goes_on("/bin/true", "-c", executable=sys.executable)
        self.assertIn("this program is not the Python interpreter /bin/true. Start the program under 'cufence run'", why)

    def test_embedded(self) -> None:
        """As gdb, vim and uwsgi do it; also with invalid settings, which are not read then."""
        python = Path(str(sysconfig.get_config_var("LIBDIR")), str(sysconfig.get_config_var("INSTSONAME")))
        if python.suffix == ".a" or not python.is_file():
            self.skipTest("this Python has no shared library")
        source, program = self.folder / "embeds.c", self.folder / "embeds"
        source.write_text(
            "#include <dlfcn.h>\n"
            "int main(int count, char **arguments)\n"
            "{\n"
            "    void *python = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);\n"
            "    ((void (*)(void))dlsym(python, \"Py_Initialize\"))();\n"
            "    return ((int (*)(const char *))dlsym(python, \"PyRun_SimpleString\"))(arguments[count - 1]) |\n"
            "           ((int (*)(void))dlsym(python, \"Py_FinalizeEx\"))();\n"
            "}\n"
        )
        subprocess.run([standin.c_compiler(), str(source), "-ldl", "-o", str(program)], check=True)
        self.assertIn("Start the program under 'cufence run'", self.check_goes_on(str(program), str(python)))
        why = self.check_goes_on(str(program), str(python), settings="backend:cufence,cufence_uaf")
        self.assertIn("Start the program under 'cufence run'", why)

    def test_environment_too_long(self) -> None:
        """Linux allows 128 KiB per variable, and the new options make this one longer."""
        settings = "backend:cufence,cufence_log:" + "y" * 250
        message = self.refused(126, CUFENCE_OPTIONS="align=16," * 14540, **{CUDA: settings})
        self.assertIn("cannot be run: Argument list too long", message)

    def test_named_but_not_there(self) -> None:
        found = self.found("-c", "import torch", LD_PRELOAD="/nonexistent/libcufence_preload.so")
        self.assertIn("warning: LD_PRELOAD names /nonexistent/libcufence_preload.so, but", found["stderr"])

    def test_without_site(self) -> None:
        """-S disables all start-up hooks."""
        done = self.run_it("-S", "-c", "print('went on')", more={CUDA: "backend:cufence"})
        self.assertEqual((done.returncode, done.stdout), (0, "went on\n"))


@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Bootstrap(standin.InFolder):
    """The folder that `cufence run` puts into PYTHONPATH, for interpreters without the package."""

    def setUp(self) -> None:
        super().setUp()
        self.library = standin.copy_library(self.folder / "lib")
        (self.folder / "cufence").symlink_to(standin.PACKAGE / "cufence")  # as an installation has it

    def run_it(self, code: str, *more: Path, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = standin.clean_environment(PYTHONPATH=os.pathsep.join(map(str, more)), **environment)
        command = [str(self.folder / "bin" / "cufence"), "run", "--", sys.executable, "-c", code]
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, cwd=self.folder)

    def test_starts_cufence(self) -> None:
        code = "import sys, cufence, os; print(cufence.__file__, 'cufence._patches' in sys.modules, *sys.path, sep='\\n')"
        done = self.run_it(code)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:2], [str(standin.PACKAGE / "cufence" / "__init__.py"), "True"], done.stderr)
        self.assertNotIn(str(standin.PACKAGE), lines[2:], "neighbours of the package must stay out of reach")

    def test_runs_the_one_it_hides(self) -> None:
        (self.folder / "sitecustomize.py").write_text("print('theirs')\n")
        done = self.run_it("import sitecustomize; print(sitecustomize.__file__)", self.folder)
        self.assertEqual(done.stdout.splitlines(), ["theirs", str(self.folder / "sitecustomize.py")], done.stderr)

    def test_without_one_to_hide(self) -> None:
        code = "import sitecustomize, sys; print(sitecustomize.__file__, *sys.path, sep='\\n')"
        done = self.run_it(code)
        here = self.folder / "cufence" / "_bootstrap"
        self.assertEqual(Path(done.stdout.splitlines()[0]).resolve(), here.resolve() / "sitecustomize.py", done.stderr)
        plain = subprocess.run([sys.executable, "-c", "import sys; print(*sys.path, sep='\\n')"], stdout=subprocess.PIPE, text=True,
                               env=standin.clean_environment(), cwd=self.folder)
        self.assertEqual(done.stdout.splitlines()[1:], plain.stdout.splitlines(), "it has left the path")
        (self.folder / "sitecustomize.py").write_text("import no_such_module\n")
        done = self.run_it("print('went on')", self.folder)
        self.assertEqual(done.stdout, "went on\n")
        self.assertIn("No module named 'no_such_module'", done.stderr, "its own error is told as Python tells it")

    def test_child_that_asks_for_more(self) -> None:
        """An interpreter without the hook, in a run, with settings that differ from those of the run."""
        say = "import os; print(os.environ['PYTORCH_CUDA_ALLOC_CONF'], os.environ['CUFENCE_OPTIONS'], os.environ['LD_PRELOAD'])"
        code = (
            "import os, subprocess, sys\n"
            "os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'backend:cufence,cufence_side:start,a:1'\n"
            f"subprocess.run([sys.executable, '-c', {say!r}], check=True)\n"
        )
        done = self.run_it(code, CUFENCE_LIBRARY=str(self.library))
        preload = self.library.with_name("libcufence_preload.so")
        self.assertEqual(done.stdout, f"backend:cudaMallocAsync,a:1 side=start {preload}\n", done.stderr)
