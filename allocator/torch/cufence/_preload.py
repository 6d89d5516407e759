"""Reads what `cufence run` set up for this process: the preload library, and the back end in PyTorch's settings.

Imported when the interpreter starts: no slow imports here.
"""

from __future__ import annotations

import os

FILE_NAME = "libcufence_preload.so"
VARIABLE = "LD_PRELOAD"

# PyTorch 2.11 uses the first one that is set, even if it is empty. `cufence run` sets the back end in both.
SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
BENEATH = "backend:cudaMallocAsync"

_is_known = False
_path: str | None = None


def named() -> str | None:
    """Returns the entry of LD_PRELOAD that names the library, None if there is none. The loader may have ignored it."""
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
    """Returns the path of the preload library in this process, None if it is not loaded.

    The result of the first call is kept: later changes of LD_PRELOAD have no effect.
    """
    global _is_known, _path
    if not _is_known:
        _path = _mapped() if named() else None
        _is_known = True
    return _path


def settings() -> tuple[str | None, str]:
    """Returns the name of the variable that PyTorch uses, None if none is set, and its value."""
    for name in SETTINGS:
        if name in os.environ:
            return name, os.environ[name]
    return None, ""
