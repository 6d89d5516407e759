"""Regions: the inside of a buffer, such as the rows of a paged KV cache (`cufence docs regions`)."""

from __future__ import annotations

import math
import sys
from typing import Any

from . import _library


def memory_of(what: Any) -> tuple[int, int]:
    """Returns the address and the size in bytes of a tensor of PyTorch, or of anything with __cuda_array_interface__. Raises
    ValueError if its elements do not lie side by side."""
    if hasattr(what, "data_ptr"):
        if not what.is_contiguous():
            raise ValueError(
                f"a tensor of shape {tuple(what.shape)} and strides {what.stride()} is not contiguous: divide the tensor that it "
                "is a view of, or each contiguous part of it"
            )
        return what.data_ptr(), what.numel() * what.element_size()
    interface = getattr(what, "__cuda_array_interface__", None)
    if interface is None:
        raise TypeError(f"a {type(what).__name__} is neither a tensor nor has it __cuda_array_interface__")
    if interface.get("strides") is not None:
        raise ValueError(f"an array with strides {interface['strides']} is not contiguous: divide the array that it is a view of")
    return interface["data"][0], math.prod(interface["shape"]) * int(interface["typestr"][2:])


def stream_of(stream: Any, device: int | None) -> int:
    """Returns a stream's handle: `stream` is one of PyTorch or CuPy, a handle, or None for PyTorch's current one, without
    PyTorch the default stream."""
    if stream is None:
        torch = sys.modules.get("torch")
        return torch.cuda.current_stream(device).cuda_stream if torch is not None and device is not None else 0
    return int(getattr(stream, "cuda_stream", getattr(stream, "ptr", stream)))


class Regions:
    """The rows of a buffer. All are live until they are released. `len()` is their number."""

    def __init__(self, start: int, row_bytes: int, rows: int, name: str, device: int | None) -> None:
        self.start, self.row_bytes, self.rows, self.name, self._device = start, row_bytes, rows, name, device

    def __len__(self) -> int:
        return self.rows

    def address(self, row: int) -> int:
        """Returns where a row begins."""
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.name or 'a buffer'} with {self.rows} rows")
        return self.start + row * self.row_bytes

    def take(self, row: int, owner: object = None, *, stream: Any = None) -> None:
        """The row is used from here on in the order of the stream (None: the current one), by `owner`, any text for reports. What
        was written into it while it was free is reported."""
        text = None if owner is None else str(owner).encode()
        status = _library.load().cufence_region_take(self.address(row), text, stream_of(stream, self._device))
        _library.check(status, "cufence_region_take")

    def release(self, row: int, *, stream: Any = None) -> None:
        """Nobody uses the row any more, in the order of the stream: its bytes become NaN. Raises Error if it is free."""
        status = _library.load().cufence_region_release(self.address(row), stream_of(stream, self._device))
        _library.check(status, "cufence_region_release")

    def gone(self) -> None:
        """Ends the division. It also ends when the buffer is freed."""
        _library.check(_library.load().cufence_region_gone(self.start), "cufence_region_gone")


def regions(tensor: Any, rows: int | None = None, names: str = "") -> Regions:
    """Divides the memory of a tensor, or of an array of CuPy and others, into `rows` rows of one size (None: as its first
    dimension says). `names` names them in reports: "kv" gives "row 17 of kv". Raises Error if cufence does not guard the memory.

        kv = cufence.regions(cache, rows=blocks, names="kv")
        kv.take(17, owner="request 4")
        kv.release(17)
    """
    start, size = memory_of(tensor)
    count = int(tensor.shape[0]) if rows is None else int(rows)
    if count < 1 or size % count:
        raise ValueError(f"{size} bytes cannot be divided into {count} rows of one size")
    device = tensor.device.index if hasattr(tensor, "data_ptr") else None
    status = _library.load().cufence_region(start, size // count, count, names.encode() or None)
    _library.check(status, "cufence_region")
    return Regions(start, size // count, count, names, device)
