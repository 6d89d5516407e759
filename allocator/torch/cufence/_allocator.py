"""Makes cufence PyTorch's CUDA allocator: installs the class of allocator.cpp, which fits one version of PyTorch."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from types import ModuleType

from . import _preload, _shim

_lock = threading.Lock()
_class: ctypes.CDLL | None = None  # stays loaded, because PyTorch keeps a pointer into it; guarded by _lock


class InstallError(RuntimeError):
    """Raised when the class cannot become PyTorch's allocator; the message says why."""


def is_installed() -> bool:
    """Returns whether cufence's class allocates PyTorch's tensors in this process."""
    return _class is not None


@contextlib.contextmanager
def _without_back_end() -> Iterator[None]:
    """Takes cudaMallocAsync out of PyTorch's variables. PyTorch reads them once, while the class is installed, and asks the driver
    for its version if it finds that name: this starts the driver, and no child of a fork could use CUDA then. Child processes
    need the name, for PyTorch without Python."""
    before = {name: os.environ[name] for name in _preload.SETTINGS if name in os.environ}
    for name, text in before.items():
        os.environ[name] = ",".join(entry for entry in text.split(",") if entry.replace(" ", "") != _preload.BENEATH)
    try:
        yield
    finally:
        os.environ.update(before)


def install(torch: ModuleType, is_traced: bool = True) -> None:
    """Makes the class PyTorch's allocator. Call before PyTorch starts CUDA; further calls do nothing. is_traced: it tells
    torch.cuda._gpu_trace of tensors. Raises InstallError, and _shim.BuildError where there is no class for this PyTorch and none
    can be compiled."""
    global _class
    with _lock:
        if _class is not None:
            return
        library = _shim.load(torch)
        start = library.cufence_torch_install
        start.restype = ctypes.c_char_p
        with _without_back_end():
            why = start(int(is_traced))
        if why is not None:
            raise InstallError(why.decode())
        _class = library


def install_or_say(torch: ModuleType) -> None:
    """As install(), for a PyTorch whose cudaMallocAsync back end serves where the class does not; says then what is lost."""
    try:
        install(torch)
    except Exception as error:  # the program can do without
        if torch.cuda.get_allocator_backend() == "native":
            return  # unguarded, which is said elsewhere
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        os.write(
            2,
            f"cufence: PyTorch {torch.__version__} allocates through its cudaMallocAsync back end: no CUDA graph trees, memory "
            f"pools and snapshots, and small operations take a fifth longer. {reason}\n".encode(errors="backslashreplace"),
        )
