"""Compiling PyTorch's allocator class: the compiler, the cache, and the error messages."""

from __future__ import annotations

import os
import stat
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import standin

from cufence import _shim


class Compiler(unittest.TestCase):
    def test_none(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": "/nonexistent"}), self.assertRaises(_shim.BuildError) as caught:
            os.environ.pop("CXX", None)
            _shim.compiler()
        self.assertRegex(str(caught.exception), r"no C\+\+ compiler was found.*apt-get install g\+\+")

    def test_named(self) -> None:
        with mock.patch.dict(os.environ, {"CXX": "no-such-compiler -m64"}), self.assertRaises(_shim.BuildError) as caught:
            _shim.compiler()
        self.assertIn("CXX names 'no-such-compiler'", str(caught.exception))
        with mock.patch.dict(os.environ, {"CXX": "true --flag"}):
            self.assertEqual(_shim.compiler(), ["true", "--flag"])


class Version(unittest.TestCase):
    def test_number(self) -> None:
        for text, number in (("2.11.0+cu130", 21100), ("2.9.1", 20901), ("2.12.0a0+git1234", 21200), ("3.0", 30000)):
            self.assertEqual(_shim.version_number(text), number)
        with self.assertRaises(_shim.BuildError):
            _shim.version_number("nightly")


class Cache(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def test_usable(self) -> None:
        new = self.folder / "a" / "b"
        self.assertTrue(_shim._usable(new))
        self.assertEqual(stat.S_IMODE(new.stat().st_mode) & 0o077, 0)

    def test_open_to_others(self) -> None:
        self.folder.chmod(0o777)
        self.assertFalse(_shim._usable(self.folder))

    def test_not_a_folder(self) -> None:
        (self.folder / "file").write_text("")
        self.assertFalse(_shim._usable(self.folder / "file" / "cache"))

    @unittest.skipUnless(standin.has_compiler(), "no C++ compiler")
    @unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
    def test_build(self) -> None:
        standin.make_torch(self.folder)
        code = "import torch; from cufence import _shim; print(_shim.build(torch))"
        first = standin.run_python(code, self.folder)
        self.assertEqual(first.returncode, 0, first.stderr)
        path = Path(first.stdout.strip())
        self.assertEqual(path.parent, self.folder / "cache" / "cufence")
        self.assertRegex(path.name, r"^allocator-2\.11\.0\+standin-[0-9a-f]{16}\.so$")
        made = path.stat().st_mtime_ns
        again = standin.run_python(code, self.folder, PATH="/nonexistent")  # the cache needs no compiler
        self.assertEqual((again.stdout, path.stat().st_mtime_ns), (first.stdout, made), again.stderr)
        self.assertEqual([entry.name for entry in path.parent.iterdir()], [path.name])

    @unittest.skipUnless(standin.has_compiler(), "no C++ compiler")
    @unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
    def test_build_without_cache(self) -> None:
        standin.make_torch(self.folder)
        (self.folder / "cache").write_text("in the way")
        code = "import torch; from cufence import _shim; path = _shim.build(torch); print(path, path.is_file())"
        done = standin.run_python(code, self.folder)
        path, was_file = done.stdout.split()
        self.assertEqual(was_file, "True", done.stderr)
        self.assertFalse(Path(path).parent.exists(), "the folder of one process is gone with it")

    @unittest.skipUnless(standin.has_compiler(), "no C++ compiler")
    @unittest.skipUnless(standin.LIBRARY.is_file(), f"no {standin.LIBRARY.name}: build first")
    def test_build_fails(self) -> None:
        standin.make_torch(self.folder)
        (self.folder / "torch" / "include" / "c10" / "util" / "Exception.h").write_text("#error of another version")
        done = standin.run_python("import torch; from cufence import _shim; _shim.build(torch)", self.folder)
        self.assertRegex(done.stderr, r"allocator\.cpp does not compile against PyTorch 2\.11\.0\+standin\. The command was")
        self.assertIn("of another version", done.stderr)
        self.assertEqual(list((self.folder / "cache" / "cufence").iterdir()), [])
