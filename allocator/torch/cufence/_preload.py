"""What `cufence run` has done for this process: the preload library in it, and the back end in PyTorch's settings.

Imported at the start of the interpreter: no imports of weight.
"""

from __future__ import annotations

import os

FILE_NAME = "libcufence_preload.so"
VARIABLE = "LD_PRELOAD"

# PyTorch 2.11 takes the first that is set, also when that is empty. `cufence run` names the back end in both.
SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
BENEATH = "backend:cudaMallocAsync"

_is_known = False
_path: str | None = None


def named() -> str | None:
    """The entry of LD_PRELOAD that names the library, whether the loader has taken it or not."""
    for entry in os.environ.get(VARIABLE, "").replace(":", " ").split():
        if os.path.basename(entry) == FILE_NAME:
            return entry
    return None


def _mapped() -> str | None:
    if not os.path.exists("/proc/self/maps"):
        return named()
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            if line.endswith(f"/{FILE_NAME}\n"):
                return line[line.index("/") : -1]
    return None


def path() -> str | None:
    """The file that the loader has put into this process; None where cufence is not preloaded.

    What the first call finds holds for the process, whatever becomes of LD_PRELOAD.
    """
    global _is_known, _path
    if not _is_known:
        _path = _mapped() if named() else None
        _is_known = True
    return _path


def settings() -> tuple[str | None, str]:
    """PyTorch's variable that is in force, None if none is set, and its text."""
    for name in SETTINGS:
        if name in os.environ:
            return name, os.environ[name]
    return None, ""
