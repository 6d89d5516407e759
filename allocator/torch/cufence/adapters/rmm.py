"""RMM: pools hand every allocation to the resource below them, which asks the driver, so that each gets guards of its own.

RMM tells tools nothing of what its pools hand out: of NVTX it has ranges alone. The classes are replaced with ones of the same
arguments, of which only the resource below has an effect. Pools that C++ code makes are as they were.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def _direct(mr: Any, name: str) -> Any:
    """Returns the class that takes the place of the pool `name`."""
    base, pool = mr.LimitingResourceAdaptor, getattr(mr, name)

    class Direct(base):  # type: ignore[misc]
        cufence_before = pool

        def __new__(cls, upstream_mr: Any, *_: Any, **__: Any) -> Any:
            self = base.__new__(cls, upstream_mr, sys.maxsize)
            self.bin_mrs = []
            return self

        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def pool_size(self) -> int:
            return int(self.get_allocated_bytes())

        def add_bin(self, allocation_size: int, bin_resource: Any = None) -> None:
            if bin_resource is not None:
                self.bin_mrs.append(bin_resource)

    Direct.__name__ = Direct.__qualname__ = name
    Direct.__doc__ = pool.__doc__
    return Direct


def patch(module: ModuleType) -> None:
    mr = sys.modules["rmm.mr"]
    for name in ("PoolMemoryResource", "ArenaMemoryResource", "FixedSizeMemoryResource", "BinningMemoryResource"):
        if hasattr(getattr(mr, name), "cufence_before"):
            continue
        direct = _direct(mr, name)
        for holder in ("rmm.mr", "rmm.pylibrmm.memory_resource"):
            setattr(sys.modules[holder], name, direct)
    functions: Any = sys.modules["rmm.rmm"]  # has reinitialize(), whose pool is made in C
    before = functions._initialize
    if not hasattr(before, "cufence_before"):

        def initialize(pool_allocator: bool = False, **named: Any) -> None:
            before(pool_allocator=False, **named)

        initialize.cufence_before = before  # type: ignore[attr-defined]
        functions._initialize = initialize
