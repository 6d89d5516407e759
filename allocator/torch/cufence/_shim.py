"""Compiles shim.cpp against the PyTorch that is installed, once, and keeps the result in a cache folder."""

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
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
COMPILE_SECONDS = 300


class BuildError(RuntimeError):
    """shim.cpp could not be compiled; the message says why and what to do."""


def _first_file(places: list[Path], what: str) -> Path:
    for place in places:
        if place.is_file():
            return place
    raise BuildError(f"{what} is missing at {' and at '.join(map(str, places))}: the installation is incomplete")


def source() -> Path:
    """shim.cpp, of the installed package or of a checkout."""
    return _first_file([_library.PACKAGE / "shim.cpp", _library.PACKAGE.parent / "shim.cpp"], "shim.cpp")


def header() -> Path:
    """cufence.h, of the installed package or of a checkout."""
    places = [_library.PACKAGE / "include" / "cufence.h"]
    if len(_library.PACKAGE.parents) > 2:
        places.append(_library.PACKAGE.parents[2] / "include" / "cufence.h")
    return _first_file(places, "cufence.h")


def compiler() -> list[str]:
    """The C++ compiler's command: $CXX, else the first of COMPILERS on the path."""
    named = shlex.split(os.environ.get("CXX", ""))
    if named:
        if shutil.which(named[0]) is None:
            raise BuildError(f"CXX names {named[0]!r}, and there is no such command")
        return named
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    raise BuildError(
        "cufence.enable() compiles a small C++ file against your PyTorch at its first use, and no C++ compiler was found "
        f"({', '.join(COMPILERS)}). Install one ('apt-get install g++', 'dnf install gcc-c++', 'conda install cxx-compiler') "
        "or let CXX name it."
    )


def version_number(version: str) -> int:
    """The number that shim.cpp compares: 21100 for "2.11.0+cu130"."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if not match:
        raise BuildError(f"PyTorch's version {version!r} is not of the form 2.11.0")
    major, minor, patch = (int(part or 0) for part in match.groups())
    return major * 10000 + minor * 100 + patch


def cache_folders() -> list[Path]:
    """Where results may be kept, best first."""
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        base = Path(home) if home else Path.home() / ".cache"
    except RuntimeError:  # no home folder
        return []
    return [base / "cufence"]


def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What lies here is loaded as code: a folder that others can write to is not a cache but a trap.
        state = folder.stat()
        if state.st_uid != os.getuid() or state.st_mode & 0o022:
            return False
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _command(torch: ModuleType, out: Path) -> list[str]:
    assert torch.__file__ is not None  # a package of files
    root = Path(torch.__file__).parent
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    library = _library.path()
    return [
        *compiler(),
        *FLAGS,
        f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        f"-DCUFENCE_TORCH_VERSION={version_number(torch.__version__)}",
        "-isystem",
        str(root / "include"),
        f"-I{header().parent}",
        str(source()),
        "-o",
        str(out),
        # Both are in the process already when the result is loaded, and are found there by name.
        f"-L{root / 'lib'}",
        "-lc10",
        str(library),
    ]


def _key(torch: ModuleType) -> str:
    parts = [
        torch.__version__,
        str(int(torch._C._GLIBCXX_USE_CXX11_ABI)),
        __version__,
        " ".join(FLAGS),
        source().read_text(),
        header().read_text(),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _compile(torch: ModuleType, target: Path) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
    os.close(handle)
    try:
        command = _command(torch, Path(name))
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"the C++ compiler did not run: {error}") from error
        if done.returncode:
            raise BuildError(
                f"shim.cpp does not compile against PyTorch {torch.__version__}. The command was\n"
                f"  {shlex.join(command)}\nand it said\n{done.stderr.strip()[:4000]}"
            )
        os.chmod(name, 0o700)
        os.replace(name, target)  # whoever builds at the same time gets a whole file
    finally:
        if os.path.exists(name):
            os.unlink(name)


def build(torch: ModuleType) -> Path:
    """The compiled shim for this PyTorch: from the cache, else compiled now (about two seconds). Raises BuildError."""
    file_name = f"shim-{re.sub(r'[^0-9A-Za-z.+-]', '_', torch.__version__)}-{_key(torch)}.so"
    for folder in cache_folders():
        if _usable(folder):
            target = folder / file_name
            if not target.is_file():
                _compile(torch, target)
            return target
    # No cache: a folder of this process alone, compiled at each start.
    target = Path(tempfile.mkdtemp(prefix="cufence-")) / file_name
    atexit.register(shutil.rmtree, target.parent, ignore_errors=True)
    _compile(torch, target)
    return target
