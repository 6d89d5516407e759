"""Loads libcufence.so with ctypes: finds it, declares its prototypes and structs, and turns statuses into exceptions."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import Any

from . import __version__, _preload

OK = 0
INVALID_ARGUMENT = 1
OPTION = 2
NOT_INITIALIZED = 3
ALREADY_INITIALIZED = 4
TIMEOUT = 18

ENVIRONMENT = "CUFENCE_LIBRARY"
FILE_NAME = "libcufence.so"
PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parent.parent.parent  # if the package is in one
CANDIDATES = (PACKAGE / "lib" / FILE_NAME, CHECKOUT / "build" / "lib" / FILE_NAME)  # if CUFENCE_LIBRARY is not set


class Error(RuntimeError):
    """Raised when a call of the library fails. `status` is the value of its cufence_status."""

    def __init__(self, message: str, status: int = OK) -> None:  # pickle gives the message, and then sets status
        super().__init__(message)
        self.status = status


def _fields(names: str, kind: Any = ctypes.c_uint64) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class _Struct(ctypes.Structure):
    """A struct of cufence.h: its first member is its size."""

    def __init__(self) -> None:
        super().__init__(ctypes.sizeof(self))


class Buffer(_Struct):
    """struct cufence_buffer."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        *_fields("id address size mapping_start mapping_end guard_start guard_end stream"),
        *_fields("allocated_ns freed_ns free_stream allocated_tid freed_tid"),
        *_fields("allocated_stack freed_stack", ctypes.c_uint32),
        *_fields("device is_mapped", ctypes.c_int32),
        ("label", ctypes.c_char * 64),
        *_fields("freed_ago redzone_before redzone_after"),
    ]


class Description(_Struct):
    """struct cufence_description."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("place", ctypes.c_int), ("offset", ctypes.c_uint64), ("buffer", Buffer)]


class Stats(_Struct):
    """struct cufence_stats."""

    _fields_ = _fields(
        "struct_size live_buffers live_bytes peak_live_bytes mapped_bytes idle_bytes cached_bytes captured_bytes allocations frees "
        "fresh_mappings retired_mappings reserved_address_bytes used_address_bytes faults freed_places tested_places "
        "tested_buffers tested_rounds unguarded_allocations unguarded_bytes packed_buffers packed_bytes packed_mapped_bytes "
        "packed_allocations"
    )


class Unguarded(_Struct):
    """struct cufence_unguarded."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("what", ctypes.c_char_p), *_fields("allocations bytes live_buffers live_bytes")]


# Function -> result type and argument types.
PROTOTYPES = {
    "cufence_version_string": (ctypes.c_char_p, []),
    "cufence_strerror": (ctypes.c_char_p, [ctypes.c_int]),
    "cufence_error_detail": (ctypes.c_char_p, []),
    "cufence_check_options": (ctypes.c_int, [ctypes.c_char_p]),
    "cufence_init": (ctypes.c_int, [ctypes.c_char_p]),
    "cufence_label_push": (ctypes.c_int, [ctypes.c_char_p]),
    "cufence_label_pop": (ctypes.c_int, []),
    "cufence_describe": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Description)]),
    "cufence_get_stats": (ctypes.c_int, [ctypes.c_int, ctypes.POINTER(Stats)]),
    "cufence_get_unguarded": (ctypes.c_int, [ctypes.POINTER(Unguarded), ctypes.POINTER(ctypes.c_size_t)]),
    "cufence_trim": (ctypes.c_int, [ctypes.c_int]),
    "cufence_check_host": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]),
    "cufence_check": (ctypes.c_int, [ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)]),
    "cufence_poison": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
    "cufence_unpoison": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
    "cufence_fault_count": (ctypes.c_uint64, []),
    "cufence_wait_reports": (ctypes.c_int, [ctypes.c_uint]),
    "cufence_last_report": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)]),
    "cufence_last_report_json": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)]),
    "cufence_torch_adopt": (ctypes.c_char_p, [ctypes.c_char_p, ctypes.c_int]),
    "cufence_torch_adopt_or_say": (ctypes.c_int, [ctypes.c_char_p]),
    "cufence_torch_before_sync": (ctypes.c_int, [ctypes.c_int, ctypes.c_uint64]),
    "cufence_torch_add": (None, [ctypes.c_char_p, ctypes.c_char_p]),
    "cufence_torch_kernel": (None, [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p]),
}

_lock = threading.RLock()  # a signal handler or __del__ may call in the middle of load()
_loaded: ctypes.CDLL | None = None


def find() -> Path:
    """Returns the library's path. If the preload library is loaded in this process, returns the library next to it, so that
    there is only one cufence. Raises Error if there is no library."""
    preloaded = _preload.path()
    if preloaded:
        return Path(preloaded).resolve().with_name(FILE_NAME)
    named = os.environ.get(ENVIRONMENT)
    if named:
        path = Path(named)
        if not path.is_file():
            raise Error(f"{ENVIRONMENT} names {named!r}, and that is not a file", INVALID_ARGUMENT)
        return path.resolve()
    for path in CANDIDATES:
        if path.is_file():
            return path
    places = " nor at ".join(map(str, CANDIDATES))
    raise Error(
        f"{FILE_NAME} is neither at {places}; build it with './dev build', or let {ENVIRONMENT} name it",
        INVALID_ARGUMENT,
    )


def _open(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise Error(f"{path} cannot be loaded: {error}", INVALID_ARGUMENT) from error
    for name, (result, arguments) in PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise Error(f"{path} has no {name}(): it is not the libcufence of this package", INVALID_ARGUMENT) from None
        function.restype = result
        function.argtypes = arguments
    version = library.cufence_version_string().decode()
    if version != __version__:
        raise Error(f"{path} is version {version}, the Python package is {__version__}: install one pair", INVALID_ARGUMENT)
    return library


def load() -> ctypes.CDLL:
    """Returns the library and loads it at the first call. Raises Error."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _open(find())
        return _loaded


def loaded() -> ctypes.CDLL | None:
    """Returns the library if it is in use in this process (loaded from Python, or preloaded), else None."""
    return load() if _loaded is None and _preload.path() else _loaded


def check(status: int, call: str) -> None:
    """Raises unless status is OK: ValueError for a bad option or argument, else Error."""
    if status == OK:
        return
    library = load()
    detail = library.cufence_error_detail().decode(errors="replace")
    message = detail or f"{call}: {library.cufence_strerror(status).decode()}"
    if status in (OPTION, INVALID_ARGUMENT):
        raise ValueError(message)
    raise Error(message, status)


# ---- the latest report, without the names that Python knows ----


def _copied(function: str) -> str | None:
    """Returns the text that the C function `function` copies into a buffer; None if there was no fault."""
    library = loaded()
    if library is None:
        return None
    copy = getattr(library, function)
    size = ctypes.c_size_t(0)
    buffer = ctypes.create_string_buffer(0)
    while copy(buffer, ctypes.byref(size)) == OK:
        if size.value <= len(buffer):
            return buffer.value.decode(errors="replace")
        buffer = ctypes.create_string_buffer(size.value)  # a longer report may have arrived in between
    return None


def last_report() -> dict[str, Any] | None:
    """Returns the latest report."""
    import json

    text = _copied("cufence_last_report_json")
    report: dict[str, Any] | None = json.loads(text) if text is not None else None
    return report


def last_report_text() -> str | None:
    """Returns its text."""
    return _copied("cufence_last_report")
