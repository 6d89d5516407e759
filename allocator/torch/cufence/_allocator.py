"""Makes cufence PyTorch's CUDA allocator: installs the class of allocator.cpp that was built for this release of PyTorch."""

from __future__ import annotations

import threading
from types import ModuleType

from . import _library

_lock = threading.Lock()
_is_installed = False  # written under _lock


class InstallError(RuntimeError):
    """Raised when the class cannot become PyTorch's allocator; the message says why."""


def is_installed() -> bool:
    """Returns whether cufence's class allocates PyTorch's tensors in this process."""
    return _is_installed


def install(torch: ModuleType) -> None:
    """Makes the class PyTorch's allocator. Call before PyTorch starts CUDA. Raises InstallError. It does not tell
    torch.cuda._gpu_trace of tensors."""
    global _is_installed
    with _lock:
        why = _library.load().cufence_torch_adopt(torch.__version__.encode(), 0)
        if why is not None:
            raise InstallError(f"{why.decode()}. Start the program under 'cufence run': it guards what any PyTorch allocates")
        _is_installed = True


def install_or_say(torch: ModuleType) -> None:
    """As install(), where the cudaMallocAsync back end of another PyTorch serves instead; says then what is lost."""
    global _is_installed
    with _lock:
        _is_installed = bool(_library.load().cufence_torch_adopt_or_say(torch.__version__.encode()))
