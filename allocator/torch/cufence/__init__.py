"""cufence for PyTorch: every CUDA tensor gets its own mapping, and an overrun faults at the access itself.

    import cufence
    cufence.enable(uaf="strict", align="auto")   # before the first CUDA tensor
    import torch
    ...

Importing this module imports neither torch nor ctypes and does not touch CUDA.
"""

from __future__ import annotations

TYPE_CHECKING = False  # in place of typing's: importing typing takes 10 ms

__version__ = "0.2.0"

if TYPE_CHECKING:
    from ._api import (
        check,
        describe,
        fault_count,
        label,
        last_report,
        last_report_text,
        stats,
        trim,
        unguarded,
        wait_reports,
    )
    from ._library import Error
    from ._poison import poison, unpoison
    from ._torch import enable, is_enabled

__all__ = [
    "Error",
    "__version__",
    "check",
    "describe",
    "enable",
    "fault_count",
    "is_enabled",
    "label",
    "last_report",
    "last_report_text",
    "poison",
    "stats",
    "trim",
    "unguarded",
    "unpoison",
    "wait_reports",
]

# The module of each public name. Imported at its first use, to keep this import fast.
_HOMES = dict.fromkeys(__all__, "_api") | {
    "Error": "_library",
    "enable": "_torch",
    "is_enabled": "_torch",
    "poison": "_poison",
    "unpoison": "_poison",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
