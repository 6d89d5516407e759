"""`cmake --install`: the examples find the library by pkg-config and by find_package, wherever the tree is moved to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import standin
from standin import BUILD, ROOT


class Install(unittest.TestCase):
    folder: Path
    examples: Path

    @classmethod
    def setUpClass(cls) -> None:
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        first, cls.folder = Path(scratch.name) / "first", Path(scratch.name) / "then-here"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", first], check=True, capture_output=True)
        first.rename(cls.folder)
        cls.examples = cls.folder / "share/doc/cufence/examples"

    def run_it(self, program: Path, **environment: str) -> None:
        done = standin.run(program, env=standin.clean_environment(CUFENCE_DRIVER="sim", **environment))
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(shutil.which("pkg-config"), "needs pkg-config")
    def test_pkg_config(self) -> None:
        environment = {**os.environ, "PKG_CONFIG_PATH": str(next(self.folder.rglob("cufence.pc")).parent)}
        flags = standin.run("pkg-config", "--cflags", "--libs", "cufence", env=environment).stdout
        for compiler, source in (("cc", "first.c"), ("c++", "raii.cpp")):
            program = self.folder / f"{source}.by-pkg-config"
            subprocess.run([compiler, self.examples / source, "-o", program, *flags.split()], check=True)
            self.run_it(program)

    def test_all_missing_headers_are_named_at_once(self) -> None:
        folders = ("/usr/include", "/usr/local/include", "/usr/include/x86_64-linux-gnu", "/usr/include/aarch64-linux-gnu")
        done = standin.run("cmake", "-G", "Ninja", "-S", ROOT, "-B", self.folder / "bare", f"-DCMAKE_IGNORE_PATH={';'.join(folders)}")
        self.assertNotEqual(done.returncode, 0)
        for said in (
            "headers not found: uthash.h, dwarf.h, zlib.h, jansson.h, zstd.h\n",
            "apt-get install uthash-dev libdw-dev zlib1g-dev libjansson-dev libzstd-dev\n",
            "dnf install uthash-devel elfutils-devel zlib-devel jansson-devel libzstd-devel\n",
        ):
            self.assertIn(said, done.stderr)

    def test_find_package(self) -> None:
        build = self.folder / "build"
        configure: list[str | Path] = ["-G", "Ninja", "-S", self.examples, "-B", build, f"-DCMAKE_PREFIX_PATH={self.folder}"]
        for step in (configure, ["--build", build]):
            subprocess.run(["cmake", *step], check=True, capture_output=True)
        for program in ("example_first", "example_raii"):
            self.run_it(build / program)

    def test_the_library_has_a_version(self) -> None:
        library = next(self.folder.rglob("libcufence.so"))
        self.assertEqual(os.readlink(library), "libcufence.so.0")
        self.assertIn("[libcufence.so.0]", self.dynamic(library, "SONAME"))
        user = self.folder / "versioned"
        subprocess.run(["cc", self.examples / "first.c", "-o", user, f"-I{self.folder}/include", library], check=True)
        self.assertIn("[libcufence.so.0]", self.dynamic(user, "NEEDED"))
        library.unlink()  # what only those who build need
        try:
            self.run_it(user, LD_LIBRARY_PATH=str(library.parent))
        finally:
            library.symlink_to("libcufence.so.0")

    @staticmethod
    def dynamic(file: Path, tag: str) -> str:
        text = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
        return "\n".join(line for line in text.splitlines() if f"({tag})" in line)

    def test_the_manual_and_completions_are_there(self) -> None:
        for name in ("man/man1/cufence.1", "bash-completion/completions/cufence"):
            self.assertTrue((self.folder / "share" / name).is_file(), name)

    def test_the_command_says_where_the_pages_are(self) -> None:
        done = subprocess.run([self.folder / "bin/cufence", "--help"], capture_output=True, text=True, check=True)
        pages = self.folder.resolve() / "share/doc/cufence"
        self.assertIn(f"\n  {pages}\n", done.stdout)
        self.assertTrue((pages / "report.md").is_file() and (pages / "guide/jobs.md").is_file())

    @unittest.skipUnless(shutil.which("ninja"), "needs ninja")
    def test_what_the_demo_builds_is_enough(self) -> None:
        """`cmake --install` after `./dev demo`: each file that is built comes from the steps for the demo's targets."""
        (targets,) = re.findall(r"^ +build gcc build --target (cufence_cli .*)$", (ROOT / "dev").read_text(), re.M)
        steps = self.ninja("commands", *targets.split())
        rules = (BUILD / "cmake_install.cmake").read_text()
        built = [file for file in re.findall(rf'"{re.escape(str(BUILD.resolve()))}/([^"]+)"', rules) if self.is_made(file)]
        self.assertGreaterEqual(len(built), 5, rules)
        for file in built:
            if file.startswith("lib/torch/"):
                continue  # OPTIONAL
            self.assertLessEqual(self.ninja("commands", "-s", file), steps, file)

    @staticmethod
    def ninja(tool: str, *arguments: str) -> set[str]:
        done = subprocess.run(["ninja", "-C", BUILD, "-t", tool, *arguments], capture_output=True, text=True, check=True)
        return set(done.stdout.splitlines())

    @staticmethod
    def is_made(file: str) -> bool:
        done = subprocess.run(["ninja", "-C", BUILD, "-t", "query", file], capture_output=True, text=True, check=False)
        return "input:" in done.stdout
