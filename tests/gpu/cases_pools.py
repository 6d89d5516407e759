"""Pools of other libraries: what each story must show."""

from __future__ import annotations

from cases_alike import ILLEGAL, clean
from harness import Case

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

