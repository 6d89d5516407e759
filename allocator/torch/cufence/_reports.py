"""The latest report as the library has it, without the names that Python knows."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _library


def _copied(function: str) -> str | None:
    """Returns the text that the C function `function` copies into a buffer; None if there was no fault."""
    library = _library.loaded()
    if library is None:
        return None
    copy = getattr(library, function)
    size = copy(None, 0)
    while size:
        buffer = ctypes.create_string_buffer(size)
        needed = copy(buffer, size)
        if needed <= size:
            return buffer.value.decode(errors="replace")
        size = needed  # a longer report arrived in between
    return None


def last() -> dict[str, Any] | None:
    """Returns the latest report."""
    text = _copied("cufence_last_report_json")
    if text is None:
        return None
    import json

    report: dict[str, Any] = json.loads(text)
    return report


def last_text() -> str | None:
    """Returns its text."""
    return _copied("cufence_last_report")
