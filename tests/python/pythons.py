"""Every CPython found runs the code of a test: this one, python3.10 to python3.15 in PATH, those of pyenv, and those in
CUFENCE_PYTHONS, separated by colons. A free-threaded build is one of its own ("3.14t"), so is a debug build ("3.14d"), and so is
one whose JIT compiler can be turned on ("3.14 JIT").
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import standin

HOOK = standin.LIBRARY.parent / "libstack_hook.so"

PRELUDE = """
import ctypes, sys
hook = ctypes.CDLL(sys.argv[1])
hook.hook_number.restype = ctypes.c_uint32
hook.hook_text.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
hook.hook_all.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
number = hook.hook_number  # a C function that ctypes calls with the GIL released

def text(number):
    out = ctypes.create_string_buffer(1 << 16)
    hook.hook_text(number, out, len(out))
    return out.value.decode()

def expected(frame):
    lines = []
    for _ in range(24):
        if frame is None:
            break
        name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
        if not frame.f_code.co_filename.startswith("<frozen importlib"):
            lines.append("%s:%d:%s:python\\n" % (frame.f_code.co_filename, frame.f_lineno, name))
        frame = frame.f_back
    return "".join(lines)

def check(number, frame_text, what):
    found = text(number)
    assert number and found == frame_text, "%s\\nfound\\n%sexpected\\n%s" % (what, found, frame_text)
"""


KNOWN = range(10, 16)  # minor versions
ABOUT = """
import sys
name, (major, minor) = sys.implementation.name, sys.version_info[:2]
print(name, minor, "%d.%d%s" % (major, minor, sys.abiflags), hasattr(sys, "_jit") and sys._jit.is_available())
"""


def interpreters() -> dict[str, tuple[str, dict[str, str]]]:
    """Returns an interpreter and what its environment must have, one a version, by "major.minor" and the letters of its build."""
    candidates = [sys.executable, *os.environ.get("CUFENCE_PYTHONS", "").split(":")]
    candidates += [shutil.which(f"python3.{minor}{build}") or "" for minor in KNOWN for build in ("", "t", "d")]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates += [str(path) for path in sorted(pyenv.glob("3.*/bin/python3"))]
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for path in filter(None, candidates):
        done = subprocess.run([path, "-c", ABOUT], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            continue
        name, minor, version, has_jit = done.stdout.split()
        if name == "cpython" and int(minor) in KNOWN and version not in found:
            found[version] = path, {}
            if has_jit == "True":
                found[f"{version} JIT"] = path, {"PYTHON_JIT": "1"}
    return found


FOUND = interpreters()


@unittest.skipUnless(HOOK.is_file(), f"no {HOOK.name}: build first")
class EachPython(unittest.TestCase):
    def run_code(self, code: str) -> None:
        """Runs the code with every interpreter found."""
        for version, (path, variables) in FOUND.items():
            with self.subTest(python=version), tempfile.TemporaryDirectory() as folder:
                script = Path(folder) / "program.py"
                script.write_text(PRELUDE + textwrap.dedent(code), encoding="utf-8")
                words, environment = [path, str(script), str(HOOK)], {**os.environ, **variables}
                done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
