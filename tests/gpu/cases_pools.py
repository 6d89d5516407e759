"""Pools of other libraries, and one that tells NVTX of its pieces (programs/pool.cu): what each story must show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cases_alike import ILLEGAL, clean
from harness import Case

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAST = [
    r"cufence: out-of-bounds READ of 4 bytes",
    r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
    r"buffer +#\d+, 4096 bytes\b",
    r"kernel +k_past\b.*exact",
    r"block \(8,0,0\) thread \(0,0,0\)",
]


def _pool(name: str, *needs: str) -> list[Case]:
    story, output = "pool_overrun", ["neighbours are as they were: True"]
    wrong = {"report": _PAST, "error": ILLEGAL, "raises": "RAISES", "needs": needs, "ways": ("run",)}
    return [
        Case(f"{name}_pool_overrun", story, [name, "wrong"], **wrong),  # type: ignore[arg-type]
        clean(f"{name}_pool_right", output, story=story, arguments=[name, "right"], needs=needs, ways=("run",)),
    ]


STORIES = [*_pool("cupy", "cupy"), *_pool("rmm", "cupy", "rmm")]


def programs(source: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The cases of pool.cu, which has this text."""
    yield "clean", {"status": 0, "output": ["done"]}
    for kind, found, where in (
        ("past", "8 bytes changed, from byte 0", "padding in slab"),
        ("late", "4 bytes changed, from byte 0", "slab"),
    ):
        report = [
            rf"cufence: WRITE to a free region: {found} of row 0 of {where} on, in buffer #\d+",
            r"fill<<<\(1,1,1\), \(256,1,1\)>>>",
            r"launched at +.*\bmain\b",
        ]
        yield kind, {"status": 86, "report": report, "output": ["done"]}
