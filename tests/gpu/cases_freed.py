"""What is expected of launches that are given freed pointers: by the stories, and by programs/freed.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cases_alike import HOOKED, ILLEGAL, TRITON, clean
from harness import Case, marked_line

if TYPE_CHECKING:
    from collections.abc import Iterator

STORIES = [
    Case(
        "freed_argument",
        "freed_argument",
        report=[
            r"cufence: use-after-free READ of \d+ bytes",
            r"into buffer #\d+(?: \"[^\"]*\")?, which has been freed",
            r"buffer +#\d+, 4000 bytes\b",
            r"kernel +k_late\b.*exact",
            r"freed_argument\.py:{FAULT}\b",
            r"allocated at +\S*freed_argument\.py:{ALLOCATED}\b",
            r"freed at +\S*freed_argument\.py:{FREED}\b",
        ],
        output=["nothing so far"],
        error=ILLEGAL,
        raises="RAISES",
        ways=HOOKED,
    ),
    Case(
        "freed_graph",
        "freed_graph",
        arguments=["freed"],
        report=[
            r"cufence: use-after-free READ of \d+ bytes",
            r"into buffer #\d+(?: \"[^\"]*\")?, which has been freed",
            r"buffer +#\d+, 4000 bytes\b",
            r"kernel +k_scale\b.*exact",
            r"freed_graph\.py:{FAULT}\b",
            r"freed_graph\.py:{CAPTURED}\b",
            r"allocated at +\S*freed_graph\.py:{ALLOCATED}\b",
            r"freed at +\S*freed_graph\.py:{FREED}\b",
        ],
        output=["20 replays are right"],
        error=ILLEGAL,
        raises="RAISES",
        ways=HOOKED,
    ),
    clean("freed_graph_kept", ["21 replays are right"], story="freed_graph", arguments=["kept"], needs=TRITON, ways=HOOKED),
]

USED = ("same_stream", "waited", "behind_work", "loop", "of_struct", "other_stream", "graph")


def programs(source: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The cases of freed.cu, which has this text, and what is expected of each with default options."""
    for kind in USED:
        kernel = "scale_of" if kind == "of_struct" else "scale"
        report = [
            r"cufence: use-after-free (READ|WRITE) of 4 bytes, \d+ bytes into buffer #\d+(?: \"[^\"]*\")?, which has been freed",
            rf"kernel +{kernel}\b.*exact",
            r"argument 0( at byte 32)? points to this buffer",
            rf"freed\.cu:{marked_line(source, f'FAULT {kernel}')}\b",
            r"allocated at +\S",
            r"freed at +\S",
        ]
        yield kind, {"report": report, "files": {"report.json": [r'"kind": ?"use-after-free"']}}
    for kind in ("unused", "list", "graph_in_order"):
        yield kind, {"status": 0, "output": [f"{kind}: cudaSuccess"]}
