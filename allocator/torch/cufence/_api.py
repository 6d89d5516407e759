"""The C API for Python: labels, descriptions of addresses, statistics and reports."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from typing import Any

from . import _allocator, _library, _tell

# enum cufence_place, by value.
PLACES = ("unknown", "inside", "past end", "before start", "freed", "no buffer")

_WITHOUT_BUFFER = ("unknown", "no buffer")


class label(contextlib.ContextDecorator):
    """Labels the buffers that this thread allocates inside `with cufence.label("loader"):` in reports.

    Labels nest; the innermost applies. Also works as a decorator, but not of generators and coroutines; a label belongs to the
    thread, so what runs at an `await` or `yield` inside has it too. Does nothing unless cufence is enabled, so labels can
    stay in the code.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._pushed: list[bool] = []

    def _recreate_cm(self) -> label:
        return label(self.text)  # a decorated function may run in several threads at once

    def __enter__(self) -> label:
        library = _library.loaded()
        if library is not None:
            _library.check(library.cufence_label_push(self.text.encode(errors="replace")), "cufence_label_push")
        self._pushed.append(library is not None)
        return self

    def __exit__(self, *_: object) -> None:
        library = _library.loaded()
        if self._pushed.pop() and library is not None:
            _library.check(library.cufence_label_pop(), "cufence_label_pop")


def _as_dict(structure: ctypes.Structure) -> dict[str, Any]:
    return {name: getattr(structure, name) for name, *_ in structure._fields_ if name != "struct_size"}


def describe(what: Any) -> dict[str, Any]:
    """Describes what is, or was, at a device address. `what` is an address, or an object with data_ptr() such as a tensor.

    Returns a dict: place ("inside", "past end", "before start", "freed", "no buffer", "unknown"), offset (its meaning
    depends on place, see enum cufence_place in cufence.h), and buffer, a dict of struct cufence_buffer, or None if no buffer is known.
    """
    address = what.data_ptr() if hasattr(what, "data_ptr") else int(what)
    if not 0 <= address < 1 << 64:
        raise ValueError(f"{address} is not an address: 0 .. 2**64 - 1")
    description = _library.Description()
    library = _library.load()
    _library.check(library.cufence_describe(address, ctypes.byref(description)), "cufence_describe")
    place = PLACES[description.place] if description.place < len(PLACES) else str(description.place)
    buffer = None
    if place not in _WITHOUT_BUFFER:
        buffer = _as_dict(description.buffer)
        buffer["label"] = buffer["label"].decode(errors="replace")
        buffer["is_mapped"] = bool(buffer["is_mapped"])
    return {"place": place, "offset": description.offset, "buffer": buffer}


def _allocator_of_torch() -> str | None:
    """Who allocates PyTorch's tensors: "cufence", or what PyTorch calls its back end. None without PyTorch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda"):
        return None
    name = str(torch.cuda.get_allocator_backend())
    return "cufence" if name == "native" and _allocator.is_installed() else name


def stats(device: int | None = None) -> dict[str, Any]:
    """Returns the fields of struct cufence_stats as a dict, of one device, or of all if device is None; and `pytorch`, who
    allocates PyTorch's tensors: "cufence", "cudaMallocAsync" (beneath which cufence may be), "native", or None without PyTorch."""
    figures = _library.Stats()
    library = _library.load()
    status = library.cufence_get_stats(-1 if device is None else device, ctypes.byref(figures))
    _library.check(status, "cufence_get_stats")
    return _as_dict(figures) | {"pytorch": _allocator_of_torch()}


def unguarded() -> dict[str, dict[str, int]]:
    """Returns what was left to the driver, unguarded: a dict of struct cufence_unguarded by reason, empty if nothing was."""
    figures = (_library.Unguarded * 32)(_library.Unguarded())
    count = ctypes.c_size_t(len(figures))
    _library.check(_library.load().cufence_get_unguarded(figures, ctypes.byref(count)), "cufence_get_unguarded")
    rows = [_as_dict(figures[i]) for i in range(min(count.value, len(figures)))]
    return {row.pop("what").decode(): row for row in rows}


def trim(device: int | None = None) -> None:
    """Releases memory kept for reuse to the driver, on one device, or on all if device is None."""
    _library.check(_library.load().cufence_trim(-1 if device is None else device), "cufence_trim")


def check(device: int | None = None) -> int:
    """Checks the slack of all buffers of one device, or of all if device is None; not with the option slack=off.

    Synchronises the devices. Reports what was written before the start of buffers and past their ends since the last check, and
    returns the number of these findings.
    """
    found = ctypes.c_uint64()
    status = _library.load().cufence_check(-1 if device is None else device, ctypes.byref(found))
    _library.check(status, "cufence_check")
    return found.value


def fault_count() -> int:
    """Returns the number of faults reported in this process; 0 if cufence is not enabled."""
    library = _library.loaded()
    return library.cufence_fault_count() if library is not None else 0


def wait_reports(timeout: float = 10.0) -> bool:
    """Waits up to `timeout` seconds until all faults that cufence has noticed are reported. Returns False on a timeout.

    Does not wait for the device: call torch.cuda.synchronize() first.
    """
    milliseconds = int(min(max(timeout * 1000, 0), 0xFFFFFFFF))
    status = _library.load().cufence_wait_reports(milliseconds)
    if status == _library.TIMEOUT:
        return False
    _library.check(status, "cufence_wait_reports")
    return True


def last_report_text() -> str | None:
    """Returns the text of the latest report, None if there was no fault. Lines with the names of its tensors follow, if PyTorch
    is loaded."""
    text, report = _library.last_report_text(), _library.last_report()
    names = _tell.for_caller(report) if report is not None else {}
    return text + _tell.text_of(report, names) if text and report is not None and names else text


def last_report() -> dict[str, Any] | None:
    """Returns the latest report as a dict, None if there was no fault. docs/json.md describes the fields; `names`
    has the tensors in its buffers, if PyTorch is loaded."""
    report = _library.last_report()
    names = _tell.for_caller(report) if report is not None else {}
    if report is not None and names:
        report["names"] = names
    return report
