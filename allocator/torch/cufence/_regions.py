"""Regions: the inside of a buffer, such as the rows of a paged KV cache (`cufence docs regions`)."""

from __future__ import annotations

import ctypes
import math
import operator
import sys
from typing import TYPE_CHECKING, Any

from . import _api, _library

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        row = operator.index(row)  # NumPy's numbers can be too small for an address
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} of {self.name or 'a buffer'} with {self.rows} rows")
        return self.start + row * self.row_bytes

    def take(self, row: int | Iterable[int], owner: object = None, *, stream: Any = None) -> None:
        """The row, or each of several, is used from here on in the order of the stream (None: the current one), by `owner`, any text
        for reports. What was written into it while it was free is reported."""
        take([self], row, owner, stream=stream)

    def release(self, row: int | Iterable[int], *, stream: Any = None) -> None:
        """Nobody uses the row, or any of several, any more, in the order of the stream: its bytes become NaN. Raises Error if one
        is free or named twice; then none has changed."""
        release([self], row, stream=stream)

    def gone(self) -> None:
        """Ends the division. It also ends when the buffer is freed."""
        _library.check(_library.load().cufence_region_gone(self.start), "cufence_region_gone")


def _numbers(rows: Any) -> list[int]:
    """Returns one row, a number of Python, NumPy or PyTorch, or each of several as a list."""
    try:
        return [operator.index(rows)]
    except TypeError:
        return list(rows)


def _call(name: str, divisions: Iterable[Regions], rows: int | Iterable[int], stream: Any, *more: Any) -> None:
    """Calls the library's function once a device: one launch of its own then serves them all."""
    numbers, starts = _numbers(rows), dict[int | None, list[int]]()
    for division in divisions:
        starts.setdefault(division._device, []).extend(map(division.address, numbers))
    for device, addresses in starts.items():
        array = (ctypes.c_void_p * len(addresses))(*addresses)
        _library.check(getattr(_library.load(), name)(array, len(addresses), *more, stream_of(stream, device)), name)


def take(divisions: Iterable[Regions], rows: int | Iterable[int], owner: object = None, *, stream: Any = None) -> None:
    """Regions.take() of the same rows in each division."""
    _call("cufence_region_take_many", divisions, rows, stream, None if owner is None else str(owner).encode(errors="replace"))


def release(divisions: Iterable[Regions], rows: int | Iterable[int], *, stream: Any = None) -> None:
    """Regions.release() of the same rows in each division."""
    _call("cufence_region_release_many", divisions, rows, stream)


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
    status = _library.load().cufence_region(start, size // count, count, names.encode(errors="replace") or None)
    _library.check(status, "cufence_region")
    return Regions(start, size // count, count, names, device)


class _Table(ctypes.Structure):
    """struct cufence_table."""

    _fields_ = [
        ("start", ctypes.c_void_p),
        *((name, ctypes.c_size_t) for name in ("count", "runs", "pitch", "width")),
        ("rows", ctypes.c_void_p),
        ("allow", ctypes.POINTER(ctypes.c_int64)),
        ("allowed", ctypes.c_size_t),
        ("owner", ctypes.c_char_p),
        ("stops", ctypes.c_int),
    ]


def _elements_of(table: Any) -> tuple[int, int, list[tuple[int, int]]]:
    """Returns address and width of a tensor's or array's elements, and how many lie how many bytes apart, from the outermost
    dimension. Raises ValueError unless they are signed integers of 4 or 8 bytes."""
    if hasattr(table, "data_ptr"):
        width, kind = table.element_size(), str(table.dtype).rpartition(".")[2]
        start, strides = table.data_ptr(), [stride * width for stride in table.stride()]
    else:
        interface = table.__cuda_array_interface__
        width, kind = int(interface["typestr"][2:]), f"int{8 * int(interface['typestr'][2:])}" if interface["typestr"][1] == "i" else "?"
        start, strides = interface["data"][0], interface.get("strides")
    if kind not in ("int32", "int64"):
        raise ValueError(f"the elements are {kind}: only int32 and int64 can be checked")
    if strides is None:
        strides = [width * math.prod(table.shape[i + 1 :]) for i in range(len(table.shape))]
    return start, width, [(size, stride) for size, stride in zip(table.shape, strides) if size != 1 and stride]


def _runs_of(width: int, dimensions: list[tuple[int, int]]) -> tuple[int, int, int]:
    """Returns elements of a run, number of runs, and bytes between their starts. Raises ValueError if there are no equal runs."""
    merged: list[tuple[int, int]] = []
    for size, stride in dimensions:
        if merged and merged[-1][1] == size * stride:
            size *= merged.pop()[0]
        merged.append((size, stride))
    if not merged or merged[-1][1] != width:
        merged.append((1, width))
    if len(merged) > 2 or any(stride < 0 for _, stride in merged):
        raise ValueError("the elements do not lie in runs of one length, equally far apart: declare parts of the view")
    return merged[-1][0], *(merged[0] if len(merged) == 2 else (1, 0))


def index(table: Any, into: Any, *, allow: Iterable[int] = (-1,), owner: object = None, stop: bool = False) -> None:
    """Says that the elements of a tensor, int32 or int64, are numbers of the rows of `into`: what regions() returned, or a
    tensor, whose first dimension are then the rows. Before each launch that is given both, cufence checks that each element is in
    `allow` (at most four values) or names a live row, of `owner` if that is given. stop: a launch with a wrong element is held back
    and fails, as everything after it does. A table without elements is no longer checked. Raises Error if cufence does not guard the
    memory, or sees no launches.

        kv = cufence.regions(cache, names="kv")
        cufence.index(block_table[:, :used], into=kv)
    """
    start, width, dimensions = _elements_of(table)
    count, runs, pitch = (0, 0, 0) if 0 in table.shape else _runs_of(width, dimensions)
    if not isinstance(into, Regions) and _api.describe(into)["region"] is None:
        into = regions(into)
    values = [int(value) for value in allow]
    what = _Table(start, count, runs, pitch, width, into.start if isinstance(into, Regions) else into.data_ptr())
    what.allow, what.allowed = (ctypes.c_int64 * len(values))(*values), len(values)
    what.owner, what.stops = None if owner is None else str(owner).encode(errors="replace"), stop
    _library.check(_library.load().cufence_index_table(ctypes.byref(what)), "cufence_index_table")
