"""Shared by the tests: paths, helper processes, and a stand-in for PyTorch.

The stand-in has the names that cufence.enable() uses, and a class in place of allocator.cpp, which takes PyTorch's real headers.
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
from typing import Any, ClassVar

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "allocator" / "torch"
HEADER = ROOT / "include" / "cufence.h"
BUILD = Path(os.environ.get("CUFENCE_BUILD") or ROOT / "build").resolve()
LIBRARY = Path(os.environ.get("CUFENCE_LIBRARY") or BUILD / "lib" / "libcufence.so")
COMMAND = BUILD / "bin" / "cufence"
LIBCUDA = BUILD / "tests" / "libcuda"  # the simulated device under the driver's name, for LD_LIBRARY_PATH
PROGRAM = BUILD / "tests" / "programs" / "program_dlsym"  # plays stories of tests/sim/programs

sys.path.insert(0, str(PACKAGE))

_TORCH = '''
"""A stand-in for PyTorch."""
import types
from . import _C, cuda
__version__ = "2.11.0+standin"
version = types.SimpleNamespace(cuda="13.0")
'''

_C = """
_GLIBCXX_USE_CXX11_ABI = True
current = None
is_traced = False

def _cuda_getAllocator():
    return current

def _cuda_isCurrentStreamCapturing():
    return False

def _activate_gpu_trace():
    global is_traced
    is_traced = True
"""

_CUDA = """
import os, threading, time
def get_allocator_backend():
    return "native"
def is_initialized():
    return os.environ.get("STANDIN_STARTED") == "1"

class Stream:
    creating = 0
    most = 0
    def __new__(cls, device=None, priority=0, **kwargs):
        cls.creating += 1  # PyTorch holds a mutex here, and calls a trace hook that may hand the GIL to another thread
        cls.most = max(cls.most, cls.creating)
        time.sleep(0.002)
        cls.creating -= 1
        made = super().__new__(cls)
        made.given = (device, priority, kwargs)
        return made
"""

# What is left of PyTorch's interface: a class with a base, and the pointer to the current allocator.
_BASE = """
#pragma once
namespace c10 {
struct Allocator { virtual ~Allocator() {} virtual int one() { return 1; } };
}
"""
_ALLOCATOR = """
#pragma once
#include <c10/core/Allocator.h>
namespace c10::cuda::CUDACachingAllocator {
struct CUDAAllocator : Allocator {
    virtual int two() = 0; // comment
};
extern __attribute__((visibility("default"))) CUDAAllocator *allocator;
}
"""
_LOADED = """
#include <c10/cuda/CUDACachingAllocator.h>
namespace c10::cuda::CUDACachingAllocator {
struct Native : CUDAAllocator { int two() override { return 2; } } native;
CUDAAllocator *allocator = &native;
}
"""
# In place of allocator.cpp.
CLASS = """
#include <c10/cuda/CUDACachingAllocator.h>
#include "torch.h"
#include <cstdlib>
namespace {
struct Part : c10::cuda::CUDACachingAllocator::CUDAAllocator { int two() override { return 3; } };
struct Ours : Part {} ours;
}
extern "C" __attribute__((visibility("default"))) void *cufence_torch_allocator() { return &ours; }
extern "C" __attribute__((visibility("default"))) const char *cufence_torch_install()
{
    const char *why = std::getenv("STANDIN_REFUSES"), *value = why ? std::getenv(why) : nullptr;
    if (!why)
        cufence_torch_installed();
    return value ? value : why;
}
"""

_TRACE = """
registered = {"device": [], "stream": [], "event": []}
def register_callback_for_device_synchronization(callback): registered["device"].append(callback)
def register_callback_for_stream_synchronization(callback): registered["stream"].append(callback)
def register_callback_for_event_synchronization(callback): registered["event"].append(callback)
"""

_FILES = {
    "__init__.py": _TORCH,
    "_C.py": _C,
    "cuda/__init__.py": _CUDA,
    "cuda/_gpu_trace.py": _TRACE,
    "include/c10/core/Allocator.h": _BASE,
    "include/c10/cuda/CUDACachingAllocator.h": _ALLOCATOR,
}


class InOneFolder(unittest.TestCase):
    """The tests of a class have a folder together."""

    folder: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name).resolve()


class InFolder(unittest.TestCase):
    """Each test has a folder of its own."""

    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name).resolve()


@unittest.skipUnless(LIBRARY.is_file(), f"no {LIBRARY.name}: build first")
class RunsCode(InFolder):
    """Each test runs code in a fresh interpreter, behind a prelude of its class."""

    prelude: ClassVar[str] = ""
    variables: ClassVar[dict[str, str]] = {}

    def run_code(self, code: str, status: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        done = run_python(self.prelude + textwrap.dedent(code), **{**self.variables, **environment})
        self.assertEqual(done.returncode, status, done.stderr)
        return done


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Writes texts into a folder, by their names in it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def empty_preload(folder: Path) -> str:
    """Makes a library of the preload library's name that does nothing, and returns its path."""
    library = folder / "libcufence_preload.so"
    if not library.exists():
        subprocess.run([c_compiler(), "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", library], check=True)
    return str(library)


def has_compiler() -> bool:
    """Returns whether a class can be compiled here."""
    return any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def make_torch(folder: Path) -> None:
    """Writes the stand-in into folder/torch."""
    write_files(folder / "torch", _FILES)
    libraries = folder / "torch" / "lib"
    libraries.mkdir()
    for name, text in (("libc10.so", ""), ("libc10_cuda.so", _LOADED)):
        compile_shared(text, libraries / name, f"-I{folder / 'torch' / 'include'}", "-fvisibility=hidden", f"-Wl,-soname,{name}")


def ship_class(folder: Path, library: Path, version: str = "2.11.0+standin", text: str = CLASS) -> None:
    """Compiles a class against the stand-in, to lie beside the library."""
    (library.parent / "torch").mkdir(exist_ok=True)
    places = [folder / "torch" / "include", HEADER.parent, PACKAGE]
    links = [f"-L{folder / 'torch' / 'lib'}", "-Wl,--no-as-needed", "-lc10", "-lc10_cuda", str(library)]
    compile_shared(text, library.parent / "torch" / f"libcufence-torch-{version}.so", *(f"-I{place}" for place in places), *links)


def compile_shared(text: str, out: Path, *options: str, kind: tuple[str, ...] = ("-shared", "-fPIC")) -> None:
    compiler = next(name for name in ("c++", "g++", "clang++") if shutil.which(name))
    command = [compiler, *kind, "-x", "c++", "-", "-x", "none", *options, "-o", str(out)]
    subprocess.run(command, input=text, text=True, check=True, capture_output=True)


def run_python(code: str, folder: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter that sees the package, the simulated device and, with a folder, the stand-in."""
    variables = dict(os.environ)
    for name in ("CUFENCE_OPTIONS", "CUFENCE_SIM"):
        variables.pop(name, None)
    paths = [str(PACKAGE), str(Path(__file__).parent)]
    if folder is not None:
        paths.insert(0, str(folder))
        # Not loaded: the library must find libc10 itself.
        variables["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, [str(folder / "torch" / "lib"), variables.get("LD_LIBRARY_PATH")])
        )
    variables.update(PYTHONPATH=os.pathsep.join(paths), CUFENCE_LIBRARY=str(LIBRARY), CUFENCE_DRIVER="sim")
    variables.update(environment)
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)


_RECORDING_TORCH = '''
"""A stand-in for PyTorch that says what its process looked like when it was imported."""
import json, os, sys

NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUFENCE_OPTIONS", "LD_PRELOAD", "CUFENCE_RESTARTED", "PYTHONPATH",
         "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE", "TF_GPU_ALLOCATOR")
with open("/proc/self/maps") as maps:
    is_preloaded = "/libcufence_preload.so" in maps.read()
print(json.dumps({"environment": {name: os.environ.get(name) for name in NAMES}, "preloaded": is_preloaded,
                  "arguments": sys.argv, "original": sys.orig_argv, "pid": os.getpid(), "prefix": sys.prefix,
                  "flags": {"optimize": sys.flags.optimize, "dev_mode": sys.flags.dev_mode,
                            "ignore_environment": sys.flags.ignore_environment, "isolated": sys.flags.isolated},
                  "warnoptions": sys.warnoptions}), flush=True)
'''


def write_recording_torch(folder: Path) -> None:
    """Writes a stand-in into folder/torch whose import prints a JSON object that describes its process."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(_RECORDING_TORCH)


def copy_library(folder: Path) -> Path:
    """Copies libcufence.so, the preload library and the simulated device into a folder, and the command into bin/ beside it.
    Returns the first."""
    commands = folder.with_name("bin")
    for place in (folder, commands):
        place.mkdir(parents=True, exist_ok=True)
    shutil.copy(LIBRARY.parent.with_name("bin") / "cufence", commands)
    for name in ("libcufence_preload.so", "libcufence_sim.so"):
        shutil.copy(LIBRARY.with_name(name), folder)
    return Path(shutil.copy(LIBRARY, folder))


def c_compiler() -> str:
    return next(name for name in ("cc", "gcc", "clang") if shutil.which(name))


JOB = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_", "OMPI_", "PMI_")  # what a finding says of its job


def run(*command: object, timeout: int = 120, **named: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, check=False, **named)


def cufence(*arguments: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command, with the simulated device for it and what it starts."""
    device = {"CUFENCE_DRIVER": "sim", "LD_LIBRARY_PATH": f"{LIBCUDA}:{LIBRARY.parent}"}
    return run(COMMAND, *arguments, cwd=cwd, env=clean_environment(**{**device, **environment}))


def clean_environment(**more: str) -> dict[str, str]:
    """Returns the environment without variables that affect cufence (for GitHub it adds lines) or PyTorch."""
    unwanted = ("CUFENCE_", "PYTORCH_", "PYTHON", "LD_PRELOAD", "XLA_", "TF_", "PYTEST_", "GITHUB_", *JOB)
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)} | more
