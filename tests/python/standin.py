"""Shared by the tests: paths, helper processes, stand-ins for PyTorch, and the Pythons of this machine.

One stand-in has the names that cufence.enable() uses, and a class in place of allocator.cpp, which takes PyTorch's real headers; another says
what its process looked like; a third has tensors.
"""

from __future__ import annotations

import functools
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

    def run_code(self, code: str, status: int = 0, python: str = sys.executable, **environment: str) -> subprocess.CompletedProcess[str]:
        done = run_python(self.prelude + textwrap.dedent(code), None, python, **{**self.variables, **environment})
        self.assertEqual(done.returncode, status, done.stderr)
        return done


class Patched(RunsCode):
    """The same where the patches are installed, among stand-ins for other packages. The preload library is one that does nothing."""

    prelude: ClassVar[str] = "import cufence._patches as patches; patches.install()\n"
    files: ClassVar[dict[str, str]] = {}

    def setUp(self) -> None:
        super().setUp()
        write_files(self.folder, self.files)
        preload = self.folder / "libcufence_preload.so"
        subprocess.run([c_compiler(), "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", preload], check=True)
        self.variables = {"LD_PRELOAD": str(preload), "PYTHONPATH": f"{self.folder}:{PACKAGE}"}


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Writes texts into a folder, by their names in it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


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


def run_python(
    code: str, folder: Path | None = None, python: str = sys.executable, **environment: str
) -> subprocess.CompletedProcess[str]:
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
    command = [python, "-c", textwrap.dedent(code)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)


_RECORDING_TORCH = '''
"""A stand-in for PyTorch that says what its process looked like when it was imported."""
import json, os, sys

NAMES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUFENCE_OPTIONS", "LD_PRELOAD", "CUFENCE_RESTARTED", "PYTHONPATH")
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


# ---- names of tensors ----

_WITH_TENSORS = '''
import contextlib, types

class Storage:
    def __init__(self, address): self.address = address
    def data_ptr(self): return self.address

class Tensor:
    is_cuda = True
    is_leaf = True
    grad = None
    is_cow = False
    def __init__(self, address, shape, dtype="float32", strides=None, offset=0, size=4):
        self.storage, self.shape, self.dtype = Storage(address), tuple(shape), f"torch.{dtype}"
        self.offset, self.size = offset, size
        whole, own = 1, []
        for length in reversed(shape):
            own.insert(0, whole)
            whole *= length
        self.strides = tuple(strides or own)
    def untyped_storage(self):
        if self.is_cow:
            raise SystemExit("a copy-on-write tensor was materialised")
        return self.storage
    def element_size(self): return self.size
    def storage_offset(self): return self.offset
    def stride(self): return self.strides
    def numel(self):
        product = 1
        for length in self.shape:
            product *= length
        return product
    def __getattr__(self, name):
        raise AssertionError(f"{name} of a tensor was asked for")

class Lazy(Tensor):
    def untyped_storage(self): raise NotImplementedError("no storage")

class Module:
    def __init__(self):
        self.__dict__.update(_parameters={}, _buffers={}, _modules={})
    def __getattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[kind]:
                return self.__dict__[kind][name]
        raise AttributeError(name)

class Optimizer:
    def __init__(self): self.state = {}
class Adam(Optimizer): pass

nn = types.SimpleNamespace(Module=Module)
_C = types.SimpleNamespace(_is_cow_tensor=lambda tensor: tensor.is_cow, DisableTorchFunctionSubclass=contextlib.nullcontext)
'''

_WITH_KERNELS = '''
class Source:
    def __init__(self, signature, constants): self.signature, self.constants = signature, constants
class Metadata:
    def __init__(self, name, num_warps): self.name, self.num_warps = name, num_warps
class CompiledKernel:
    def __init__(self, name, signature, constants, num_warps=4):
        self.name, self.src, self.metadata = name, Source(signature, constants), Metadata(name, num_warps)
    def __getattribute__(self, name):
        assert name != "run", "that would load the kernel"
        return super().__getattribute__(name)
'''


def write_tensors(folder: Path) -> None:
    """Writes a stand-in for the parts of PyTorch and Triton that cufence looks names up in. Its tensors lie where a test says, and the kernels
    of `triton` are instances of CompiledKernel."""
    for name, text in (("torch", _WITH_TENSORS), ("triton", _WITH_KERNELS)):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text)
    (folder / "torch" / "optim.py").write_text("from . import Optimizer, Adam\n")


# ---- stacks of Python ----

HOOK = LIBRARY.parent / "libstack_hook.so"

STACK_PRELUDE = """
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


@functools.cache
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


@unittest.skipUnless(HOOK.is_file(), f"no {HOOK.name}: build first")
class EachPython(unittest.TestCase):
    """Every CPython found runs the code of a test: this one, python3.10 to python3.15 in PATH, those of pyenv, and those in CUFENCE_PYTHONS,
    separated by colons. A free-threaded build is one of its own ("3.14t"), so is a debug build ("3.14d"), and so is one whose JIT compiler
    can be turned on ("3.14 JIT").
    """

    def run_code(self, code: str) -> None:
        """Runs the code with every interpreter found."""
        for version, (path, variables) in interpreters().items():
            with self.subTest(python=version), tempfile.TemporaryDirectory() as folder:
                script = Path(folder) / "program.py"
                script.write_text(STACK_PRELUDE + textwrap.dedent(code), encoding="utf-8")
                words, environment = [path, str(script), str(HOOK)], {**os.environ, **variables}
                done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
