"""Makes cufence PyTorch's CUDA allocator: installs the class of allocator.cpp, which fits one version of PyTorch."""

from __future__ import annotations

import os
import threading
from types import ModuleType

from . import _library, _shim

_lock = threading.Lock()
_is_installed = False  # written under _lock


class InstallError(RuntimeError):
    """Raised when the class cannot become PyTorch's allocator; the message says why."""


def is_installed() -> bool:
    """Returns whether cufence's class allocates PyTorch's tensors in this process."""
    return _is_installed


def install(torch: ModuleType, is_traced: bool = True) -> None:
    """Makes the class PyTorch's allocator. Call before PyTorch starts CUDA; further calls do nothing. is_traced: it tells
    torch.cuda._gpu_trace of tensors. Raises InstallError, and _shim.BuildError where there is no class for this PyTorch and none
    can be compiled."""
    global _is_installed
    with _lock:
        if _is_installed:
            return
        _shim.load(torch)
        why = _library.load().cufence_torch_start(int(is_traced))
        if why is not None:
            raise InstallError(why.decode())
        _is_installed = True


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
