"""Pools of other libraries, and pools of one's own that are poisoned (programs/pool.cu): what each story must show."""

from __future__ import annotations

from cases_alike import ILLEGAL, TORCH, clean
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


_POISON = {"options": {"nan": "report"}, "needs": TORCH, "ways": ("run",)}
_SUMS = "sums are right: True"
STORIES = [
    *_pool("cupy", "cupy"),
    *_pool("rmm", "cupy", "rmm"),
    clean("poison_right", [_SUMS, "check: 0"], story="poison_rows", arguments=["right"], **_POISON),
    Case("poison_write", "poison_rows", ["write"], status=86, output=[_SUMS, "check: 1"],
         report=[r"WRITE to poisoned memory: 4 bytes changed, from byte 28 of the 16384 poisoned ones on, in buffer #1\b"], **_POISON),  # type: ignore[arg-type]
    Case("poison_read", "poison_rows", ["read"], status=86, output=[_SUMS, "read: nan"],
         report=[r"first NaN: \S*elementwise\S* writes 4096 NaN", r"launched at\s+\S*poison_rows\.py:29\b"], **_POISON),  # type: ignore[arg-type]
]

_WRITE = r"cufence: WRITE to poisoned memory: {} of the 1024 poisoned ones on, in buffer #\d+"
_BY = [r"given to +fill<<<\(1,1,1\), \(256,1,1\)>>>", r"poisoned at +\S*pool\.cu:\d+ in \w+"]
PROGRAMS: list[tuple[str, dict[str, object]]] = [
    ("clean", {"status": 0, "output": ["done"]}),
    ("past", {"status": 86, "report": [_WRITE.format("8 bytes changed, from byte 1000"), *_BY], "output": ["done"]}),
    ("late", {"status": 86, "report": [_WRITE.format("4 bytes changed, from byte 0"), *_BY], "output": ["done"]}),
]
