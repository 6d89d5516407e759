"""The C++ class that is PyTorch's CUDA allocator: one that was shipped for this PyTorch, else one that is compiled and kept.

PyTorch's interface differs between its versions, and nothing in the language says so when a library is loaded. So a shipped
object is named lib/torch/libcufence-torch-VERSION-KEY.so after the headers that it was compiled against, and is taken if the
headers of the installed PyTorch have the same key. Shipped or compiled, it is used only if it fits (cufence_torch_open()).
"""

from __future__ import annotations

import hashlib
import os
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


def _opened(path: Path) -> Path:
    """Opens the class if it fits the loaded libraries; raises BuildError otherwise."""
    why = _library.load().cufence_torch_open(os.fsencode(path))
    if why is not None:
        raise BuildError(why.decode(errors="replace"))
    return path


def load(torch: ModuleType) -> Path:
    """Opens the class, shipped or else compiled, once it was checked; cufence_torch_start() then installs it. Returns its path. Raises
    BuildError."""
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
