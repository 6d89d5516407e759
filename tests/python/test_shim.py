"""The allocator for PyTorch: which shipped object is taken, what is refused, and compiling: the compiler, the cache, the messages."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import standin

from cufence import _compile, _shim

_LOAD = """
import torch
from cufence import _compile, _shim
try:
    print(_shim.load(torch).name)
except _shim.BuildError as error:
    print("refused:", error)
"""


class Compiler(unittest.TestCase):
    def test_none(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": "/nonexistent"}), self.assertRaises(_shim.BuildError) as caught:
            os.environ.pop("CXX", None)
            _compile.compiler()
        self.assertRegex(str(caught.exception), r"there is no C\+\+ compiler.*apt-get install g\+\+")

    def test_named(self) -> None:
        with mock.patch.dict(os.environ, {"CXX": "no-such-compiler -m64"}), self.assertRaises(_shim.BuildError) as caught:
            _compile.compiler()
        self.assertIn("CXX names 'no-such-compiler'", str(caught.exception))
        with mock.patch.dict(os.environ, {"CXX": "true --flag"}):
            self.assertEqual(_compile.compiler(), ["true", "--flag"])


class Version(unittest.TestCase):
    def test_number(self) -> None:
        for text, number in (("2.11.0+cu130", 21100), ("2.9.1", 20901), ("2.12.0a0+git1234", 21200), ("3.0", 30000)):
            self.assertEqual(_compile.version_number(text), number)
        with self.assertRaises(_shim.BuildError):
            _compile.version_number("nightly")


sys.path.insert(0, str(standin.ROOT / "cmake"))
import torch_headers  # noqa: E402

FETCHED = sorted((standin.ROOT / ".deps" / "torch").glob("*-*"))


class Headers(unittest.TestCase):
    def test_pages(self) -> None:
        """Users read which versions of PyTorch a wheel is made for."""
        minors = [version.rpartition(".")[0] for version in torch_headers.VERSIONS]
        self.assertIn(f"PyTorch {', '.join(minors[:-1])} and {minors[-1]},", (standin.ROOT / "docs" / "pytorch.md").read_text())

    def test_not_to_be_had(self) -> None:
        variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""}
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(torch_headers, "VERSIONS", ("2.11.0",)),
            mock.patch.object(sys, "argv", ["torch_headers.py", "--to", folder]),
            mock.patch.dict(os.environ, variables),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            self.assertEqual(torch_headers.main(), 1)
            self.assertEqual(os.listdir(folder), [])
        self.assertRegex(said.getvalue(), r"the headers of PyTorch 2\.11\.0 could not be had: ERROR: No matching distribution")


@unittest.skipUnless(FETCHED, "no headers of PyTorch: python3 cmake/torch_headers.py fetches them")
class Sources(unittest.TestCase):
    def test_each_version(self) -> None:
        """The class compiles against the headers of each PyTorch that wheels are made for, without a warning."""
        places = [f"-isystem{standin.PACKAGE / 'cuda'}", f"-I{standin.HEADER.parent}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        for headers in FETCHED:
            version = _compile.version_number(headers.name)
            flags = [_compile.language(version), *_compile.FLAGS, f"-isystem{headers}", f"-DCUFENCE_TORCH_VERSION={version}"]
            done = subprocess.run([*_compile.compiler(), *flags, *places, _compile.source()], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), headers.name)


class Cache(standin.InFolder):
    def test_usable(self) -> None:
        new = self.folder / "a" / "b"
        self.assertTrue(_compile._usable(new))
        self.assertEqual(stat.S_IMODE(new.stat().st_mode) & 0o077, 0)

    def test_open_to_others(self) -> None:
        self.folder.chmod(0o777)
        self.assertFalse(_compile._usable(self.folder))

    def test_not_a_folder(self) -> None:
        (self.folder / "file").write_text("")
        self.assertFalse(_compile._usable(self.folder / "file" / "cache"))


@unittest.skipUnless(standin.has_compiler(), "no C++ compiler")
@unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
class Objects(standin.InFolder):
    def setUp(self) -> None:
        super().setUp()
        standin.make_torch(self.folder)
        self.include, self.libraries = self.folder / "torch" / "include", self.folder / "torch" / "lib"
        self.library = standin.copy_library(self.folder / "cufence" / "lib")
        self.shipped = self.library.parent / "torch"
        self.shipped.mkdir()
        self.cache = self.folder / "cache" / "cufence"

    def ship(self, text: str = standin.CLASS, name: str = "") -> str:
        name = name or f"libcufence-torch-2.11.0-{_shim.key(self.include)}.so"
        places = [self.include, standin.HEADER.parent, standin.PACKAGE]
        links = [f"-L{self.libraries}", "-Wl,--no-as-needed", "-lc10", "-lc10_cuda", str(self.library)]
        standin.compile_shared(text, self.shipped / name, *(f"-I{place}" for place in places), *links)
        return name

    def loaded(self, **environment: str) -> str:
        done = standin.run_python(_LOAD, self.folder, CUFENCE_LIBRARY=str(self.library), **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def without_compiler(self) -> str:
        return self.loaded(PATH="/nonexistent")

    def test_shipped(self) -> None:
        name = self.ship()
        self.assertEqual(self.without_compiler(), name)
        # A comment or a space changes no layout.
        header = self.include / "c10" / "core" / "Allocator.h"
        header.write_text("// Of another release.\n" + header.read_text().replace(" {", "\n{"))
        self.assertEqual(self.without_compiler(), name)
        # An image without headers: a release says as much, a build from source doesn't.
        shutil.rmtree(self.include)
        self.assertEqual(self.without_compiler(), name)
        torch = self.folder / "torch" / "__init__.py"
        torch.write_text(torch.read_text().replace("2.11.0+standin", "2.11.0a0+git1234"))
        self.assertRegex(self.without_compiler(), r"refused: .*there is no C\+\+ compiler")

    def test_other_headers(self) -> None:
        """One that was shipped for other headers is not even opened; one for these is compiled."""
        self.ship()
        header = self.include / "c10" / "core" / "Allocator.h"
        header.write_text(header.read_text().replace("int one()", "long one()"))
        self.assertRegex(self.loaded(), r"^libcufence-torch-2\.11\.0\+standin-[0-9a-f]{16}\.so$")

    def test_other_abi(self) -> None:
        self.ship()
        module = self.folder / "torch" / "_C.py"
        module.write_text(module.read_text().replace("_GLIBCXX_USE_CXX11_ABI = True", "_GLIBCXX_USE_CXX11_ABI = False"))
        self.assertRegex(self.without_compiler(), r"refused: .*there is no C\+\+ compiler")

    def ship_for(self, header: str, old: str, new: str) -> str:
        """Ships one whose name says that it fits, but that was compiled against another header."""
        key, place = _shim.key(self.include), self.include / header
        text = place.read_text()
        self.assertIn(old, text)
        place.write_text(text.replace(old, new))
        name = self.ship(name=f"libcufence-torch-2.11.0-{key}.so")
        place.write_text(text)
        return name

    def test_one_function_more(self) -> None:
        name = self.ship_for("c10/cuda/CUDACachingAllocator.h", "// comment", "virtual void more() {}")
        self.assertRegex(
            self.without_compiler(),
            rf"refused: .*no C\+\+ compiler.*\. {name} does not fit this PyTorch: its allocator has 5 virtual .* PyTorch's has 4 virtual functions and",
        )
        self.assertRegex(self.loaded(), r"^libcufence-torch-")

    def test_another_base(self) -> None:
        self.ship_for("c10/core/Allocator.h", "struct Allocator {", "struct Root { virtual ~Root() {} };\nstruct Allocator : Root {")
        self.assertRegex(self.without_compiler(), r"and the bases N3c104cuda\w+E, N3c109AllocatorE, N3c104RootE, PyTorch's has 4 virtual functions and ")

    def test_missing_symbol(self) -> None:
        self.ship(standin.CLASS.replace("return 3;", "return missing();").replace("namespace {", "int missing();\nnamespace {", 1))
        self.assertRegex(self.without_compiler(), r"\.so does not fit this PyTorch: .*undefined symbol: \S*missing")

    def test_compiled(self) -> None:
        first = self.loaded()
        self.assertRegex(first, r"^libcufence-torch-2\.11\.0\+standin-[0-9a-f]{16}\.so$")
        made = (self.cache / first).stat().st_mtime_ns
        self.assertEqual(self.without_compiler(), first, "the cache needs no compiler")
        self.assertEqual((self.cache / first).stat().st_mtime_ns, made)
        self.assertEqual([entry.name for entry in self.cache.iterdir()], [first])

    def test_compiled_without_cache(self) -> None:
        self.cache.parent.write_text("in the way")
        code = _LOAD + "\nprint(_compile.build(torch).parent)"
        done = standin.run_python(code, self.folder, CUFENCE_LIBRARY=str(self.library))
        name, parent = done.stdout.split()
        self.assertRegex(name, r"^libcufence-torch-", done.stderr)
        self.assertFalse(Path(parent).exists(), "the folder of one process is gone with it")

    def test_compiler_fails(self) -> None:
        (self.include / "c10" / "core" / "Allocator.h").write_text("#error of another version")
        said = self.loaded()
        self.assertRegex(said, r"^refused: allocator\.cpp does not compile against PyTorch 2\.11\.0\+standin: .*of another version\nThe command was\n")
        self.assertEqual(list(self.cache.iterdir()), [])
