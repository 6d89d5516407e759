"""Compiles the C++ class that is PyTorch's allocator against the installed PyTorch, and keeps the result in a cache folder."""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType

from . import __version__, _library

COMPILERS = ("c++", "g++", "clang++")
FLAGS = ("-O2", "-fPIC", "-shared", "-fvisibility=hidden")
SECONDS = 300
PREFIX = "libcufence-torch-"  # of a file; stacks leave out the frames of libcufence*


class BuildError(RuntimeError):
    """Raised when there is no allocator for this PyTorch and none can be compiled; the message says why and what to do."""


def include(torch: ModuleType) -> Path:
    """Returns the folder of PyTorch's headers."""
    assert torch.__file__ is not None  # not a namespace package
    return Path(torch.__file__).parent / "include"


def _here(name: str, *places: Path) -> Path:
    """Returns where a file or folder is, in the installed package or in a checkout."""
    for place in places:
        if (place / name).exists():
            return place / name
    raise BuildError(f"{name} is missing at {' and at '.join(map(str, places))}: the installation is incomplete")


def source() -> Path:
    """Returns the path of the C++ file."""
    return _here("allocator.cpp", _library.PACKAGE, _library.PACKAGE.parent)


def _header() -> Path:
    return _here("include/cufence.h", _library.PACKAGE, _library.CHECKOUT)


def compiler() -> list[str]:
    """Returns the C++ compiler's command: $CXX, else the first of COMPILERS on PATH."""
    named = shlex.split(os.environ.get("CXX", ""))
    if named:
        if shutil.which(named[0]) is None:
            raise BuildError(f"CXX names {named[0]!r}, and there is no such command")
        return named
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    raise BuildError(
        "cufence has no allocator for this version of PyTorch, and there is no C++ compiler to make one "
        f"({', '.join(COMPILERS)}). Install one ('apt-get install g++', 'dnf install gcc-c++', 'conda install cxx-compiler') "
        "or let CXX name it."
    )


def version_number(version: str) -> int:
    """Returns the value of CUFENCE_TORCH_VERSION: 21100 for "2.11.0+cu130"."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if not match:
        raise BuildError(f"PyTorch's version {version!r} is not of the form 2.11.0")
    major, minor, patch = (int(part or 0) for part in match.groups())
    return major * 10000 + minor * 100 + patch


def language(version: int) -> str:
    """Returns the option for the C++ that PyTorch's headers ask for, as cmake/torch.cmake does."""
    return "-std=c++20" if version >= 21400 else "-std=c++17"


def _cache_folder() -> Path | None:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cufence"
    except RuntimeError:  # no home folder
        return None


def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The files are loaded as code, so no other user may be able to write to the folder.
        state = folder.stat()
        if state.st_uid != os.getuid() or state.st_mode & 0o022:
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _command(torch: ModuleType, out: Path) -> list[str]:
    headers, version = include(torch), version_number(torch.__version__)
    return [
        *compiler(),
        language(version),
        *FLAGS,
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        f"-DCUFENCE_TORCH_VERSION={version}",
        "-isystem",
        str(_here("cuda", _library.PACKAGE, _library.PACKAGE.parent)),
        "-isystem",
        str(headers),
        f"-I{_header().parent}",
        str(source()),
        "-o",
        str(out),
        # The loader finds them by name: they are already in the process when the object is loaded.
        f"-L{headers.parent / 'lib'}",
        "-Wl,--no-as-needed",
        "-lc10",
        "-lc10_cuda",
        str(_library.path()),
    ]


def _key(torch: ModuleType) -> str:
    parts = [
        torch.__version__,
        str(int(torch._C._GLIBCXX_USE_CXX11_ABI)),
        __version__,
        " ".join(FLAGS),
        source().read_text(),
        *(path.read_text() for path in sorted(source().parent.glob("*.h"))),
        _header().read_text(),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _compile(torch: ModuleType, target: Path) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
    os.close(handle)
    try:
        command = _command(torch, Path(name))
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"the C++ compiler did not run: {error}") from error
        if done.returncode:
            said = done.stderr.strip()
            first = next((line for line in said.splitlines() if "error" in line), f"status {done.returncode}")
            raise BuildError(
                f"{source().name} does not compile against PyTorch {torch.__version__}: {first}\n"
                f"The command was\n  {shlex.join(command)}\nand it said\n{said[:4000]}"
            )
        os.chmod(name, 0o700)
        os.replace(name, target)  # atomic: concurrent builds never load a partial file
    finally:
        if os.path.exists(name):
            os.unlink(name)


def build(torch: ModuleType) -> Path:
    """Returns the object compiled for this PyTorch, from the cache if possible; compiling takes about 5 s. Raises BuildError."""
    version = re.sub(r"[^0-9A-Za-z.+-]", "_", torch.__version__)
    file_name = f"{PREFIX}{version}-{_key(torch)}.so"
    folder = _cache_folder()
    if folder is not None and _usable(folder):
        target = folder / file_name
        if not target.is_file():
            _compile(torch, target)
        return target
    # Without a cache: compile into a temporary folder at each start.
    target = Path(tempfile.mkdtemp(prefix="cufence-")) / file_name
    atexit.register(shutil.rmtree, target.parent, ignore_errors=True)
    _compile(torch, target)
    return target
