"""The C++ class that is PyTorch's CUDA allocator: one that was shipped for this PyTorch, else one that is compiled and kept.

PyTorch's interface differs between its versions, and nothing in the language says so when a library is loaded. So a shipped
object is named lib/torch/libcufence-torch-VERSION-KEY.so after the headers that it was compiled against, and is taken if the
headers of the installed PyTorch have the same key. Shipped or compiled, it is used only if the loader finds each of its symbols
in the loaded libraries, and if its class has the bases and the number of virtual functions that PyTorch's own has there.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
from pathlib import Path
from types import ModuleType

from . import _compile, _library
from ._compile import BuildError

# Those that define the classes and structs that PyTorch and the allocator hand each other, or read in inline functions.
HEADERS = (
    "c10/core/Allocator.h",
    "c10/core/CachingDeviceAllocator.h",
    "c10/core/Device.h",
    "c10/core/Stream.h",
    "c10/cuda/CUDAAllocatorConfig.h",
    "c10/cuda/CUDACachingAllocator.h",
    "c10/cuda/CUDAStream.h",
    "c10/util/ApproximateClock.h",
    "c10/util/Exception.h",
    "c10/util/UniqueVoidPtr.h",
    "c10/util/flat_hash_map.h",
)
CURRENT = "_ZN3c104cuda20CUDACachingAllocator9allocatorE"  # c10::cuda::CUDACachingAllocator::allocator, a pointer


def key(include: Path) -> str:
    """Returns what the layout depends on, in 16 digits: the text of HEADERS, less its comments and spaces."""
    text = "".join((include / name).read_text() for name in HEADERS if (include / name).is_file())
    return hashlib.sha256(re.sub(r"//[^\n]*|\s+", "", text).encode()).hexdigest()[:16]


def _shipped(torch: ModuleType) -> list[Path]:
    if not torch._C._GLIBCXX_USE_CXX11_ABI:
        return []
    include = _compile.include(torch)
    # An image may have removed the headers to save space: a released version says as much.
    pattern = f"*-{key(include)}" if include.is_dir() else f"{torch.__version__.partition('+')[0]}-*"
    return sorted((_library.path().parent / "torch").glob(f"{_compile.PREFIX}{pattern}.so"))


# ---- is it the class that the loaded libraries know? ----


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def _text(address: int) -> str:
    return ctypes.string_at(address).decode()


def _code() -> list[tuple[int, int]]:
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.split(None, 2) for line in file]
    return [(int(start, 16), int(end, 16)) for place, access, _ in lines if "x" in access for start, end in [place.split("-")]]


def _shape(allocator: int) -> tuple[int, list[str]]:
    """Returns how many virtual functions an object's class has, and the names of its bases in c10, as the Itanium C++ ABI lays
    them out."""
    code, table, count = _code(), _word(allocator), 0
    while any(start <= _word(table + 8 * count) < end for start, end in code):
        count += 1
    bases, info = [], _word(table - 8)
    while "__si_class_type_info" in _text(_word(_word(_word(info) - 8) + 8)):  # the class of the type_info: of one with a base
        info = _word(info + 16)
        bases.append(_text(_word(info + 8)))
    return count, [name for name in bases if name.startswith("N3c10")]


def _opened(path: Path) -> ctypes.CDLL:
    """Returns the object if it fits the loaded libraries; raises BuildError otherwise. ctypes resolves all symbols at once."""
    try:
        # Global: clang does not make the static variables of PyTorch's inline functions unique in a process, as gcc does, and
        # the class has to find PyTorch's own first (its settings are one).
        loaded = ctypes.CDLL("libc10_cuda.so", ctypes.RTLD_GLOBAL)
        theirs = _shape(ctypes.c_size_t.in_dll(loaded, CURRENT).value)
        library = ctypes.CDLL(str(path))
        library.cufence_torch_allocator.restype = ctypes.c_size_t
        ours = _shape(library.cufence_torch_allocator())
    except (OSError, ValueError, AttributeError) as error:
        raise BuildError(f"{path.name} does not fit this PyTorch: {str(error).removeprefix(f'{path}: ')}") from error
    if ours != theirs:
        (count, bases), (their_count, their_bases) = ours, theirs
        raise BuildError(
            f"{path.name} does not fit this PyTorch: its allocator has {count} virtual functions and the bases "
            f"{', '.join(bases)}, PyTorch's has {their_count} and {', '.join(their_bases)}"
        )
    return library


def load(torch: ModuleType) -> ctypes.CDLL:
    """Returns the library with the allocator, shipped or else compiled, loaded and checked. Raises BuildError."""
    refused = []
    for path in _shipped(torch):
        try:
            return _opened(path)
        except BuildError as error:
            refused.append(str(error))
    try:
        return _opened(_compile.build(torch))
    except BuildError as error:
        raise BuildError(" ".join([str(error), *refused])) from error
