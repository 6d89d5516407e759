"""Calls the C functions of torch.h as PyTorch's allocator class does, in a process that cufence runs in.

Prototypes with output parameters: no frame of Python's is between the caller and the library.
"""

from __future__ import annotations

import ctypes

from cufence import _library

library = _library.load()


class Freed(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("stream", ctypes.c_uint64),
        ("pool", ctypes.c_uint64 * 2),
        ("device", ctypes.c_int32),
    ]


class Mapping(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("pool", ctypes.c_uint64 * 2),
        ("is_live", ctypes.c_int32),
        ("is_waiting", ctypes.c_int32),
        ("buffer", _library.Buffer),
    ]


out = ctypes.POINTER(ctypes.c_void_p)
alloc = ctypes.CFUNCTYPE(ctypes.c_int, out, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(
    ("cufence_torch_malloc", library), ((2, "pointer"), (1, "size"), (1, "device", 0), (1, "stream", None), (1, "caller", None))
)
free = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Freed))(
    ("cufence_torch_free", library), ((1, "pointer"), (2, "freed"))
)
detail = lambda: library.cufence_error_detail().decode()
