"""Poison: bytes of a pool of one's own that nobody may use now (see docs/poison.md)."""

from __future__ import annotations

import math
import sys
from typing import Any

from . import _library


def _memory_of(what: Any) -> tuple[int, int, int | None]:
    """Returns address, size in bytes and, of a tensor, the device."""
    if hasattr(what, "data_ptr"):
        if not what.is_contiguous():
            raise ValueError(f"a tensor of shape {tuple(what.shape)} and strides {what.stride()} is not contiguous: name its parts")
        return what.data_ptr(), what.numel() * what.element_size(), what.device.index
    interface = getattr(what, "__cuda_array_interface__", None)
    if interface is None:
        raise TypeError(f"a {type(what).__name__} is neither a tensor nor has it __cuda_array_interface__")
    if interface.get("strides") is not None:
        raise ValueError(f"an array with strides {interface['strides']} is not contiguous: name its parts")
    return interface["data"][0], math.prod(interface["shape"]) * int(interface["typestr"][2:]), None


def _call(name: str, what: Any, stream: Any) -> None:
    start, size, device = _memory_of(what)
    torch = sys.modules.get("torch")
    if stream is None and torch is not None and device is not None:
        stream = torch.cuda.current_stream(device)
    handle = 0 if stream is None else int(getattr(stream, "cuda_stream", getattr(stream, "ptr", stream)))
    _library.check(getattr(_library.load(), name)(start, size, handle), name)


def poison(what: Any, *, stream: Any = None) -> None:
    """Nobody may use the memory of a tensor, or of an array of CuPy and others, from here on in the order of the stream: it
    becomes NaN, and a write into it is reported. stream: one of PyTorch or CuPy, a handle, or None for PyTorch's current one,
    without PyTorch the default stream. Raises ValueError if cufence does not guard the memory, Error if the stream is capturing."""
    _call("cufence_poison", what, stream)


def unpoison(what: Any, *, stream: Any = None) -> None:
    """The memory may be used again, from here on in the order of the stream. What was written into it meanwhile is reported.
    Raises Error if none of it is poisoned."""
    _call("cufence_unpoison", what, stream)
