"""What is expected of faults with a cause elsewhere: programs/cause.cu and stories/triton_cause.py. Sentences are checked in the JSON, where
no line ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cases_alike import HOOKED, ILLEGAL
from harness import Case, marked_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def programs(sources: Path) -> Iterator[tuple[str, str, dict[str, object]]]:
    text = (sources / "cause.cu").read_text()
    line = {kind: marked_line(text, f"FAULT {kind}") for kind in ("pages", "experts", "element", "scatter", "wrap", "wrap_bytes", "stride")}
    load = {kind: marked_line(text, f"LOAD {kind}") for kind in ("pages", "experts")}
    inside = "64-bit arithmetic gives an address inside buffer #1"
    for kind, sentence, hint in (
        ("pages", rf"index 70 was loaded in cause\.cu:{load['pages']} from buffer #3 \(argument 1\), element 21 of 32 ", "the kernel takes the index"),
        ("experts", rf"index -1 was loaded in cause\.cu:{load['experts']} from buffer #3 \(argument 1\), element 1000 of 1003 ", "an index of -1"),
        ("element", rf"was loaded in cause\.cu:{line['element']} from buffer #3 \(argument 1\), element 1003 of 1003 .*, 0 bytes past its end",
         "the index itself was read outside of buffer #3"),
        ("scatter", rf"index 1020 was loaded in cause\.cu:{line['scatter']} from buffer #2 \(argument 0\), element 437 of 1003 ", "the kernel takes"),
        ("wrap", rf"\d+ \* 1048576 wrapped at 32 bits in cause\.cu:{line['wrap']}: -\d+ instead of \d+; {inside}", "compute the index with 64 bits"),
        ("wrap_bytes", rf"\d+ \* 4 wrapped at 32 bits in cause\.cu:{line['wrap_bytes']}: -\d+ instead of \d+; {inside}", "compute the index"),
        ("stride", r"element \d+ of 4 bytes from argument 0 on: .*thread\.y \d \* 64 \(argument 3\)", "the stride of another shape"),
    ):  # fmt: skip
        yield "cause", kind, {"status": 3, "report": [rf"cause\.cu:{line[kind]}\b", "cause +"], "files": {"report.json": [sentence, hint]}}


def _triton(kind: str, sentence: str) -> Case:
    return Case(
        f"triton_cause_{kind}",
        "triton_cause",
        arguments=[kind],
        report=[rf"kernel +k_{kind}\b.*exact", rf"triton_cause\.py:{{{kind.upper()}}}\b", "cause +"],
        files={"report.json": [sentence]},
        options={"json": "report.json"},
        error=ILLEGAL,
        ways=HOOKED,
    )


STORIES = [
    _triton("pages", r"index 70 was loaded in triton_cause\.py:{OFPAGES} from buffer #\d+ .argument 2., element 21 of 32 "),
    _triton("experts", r"index 4104 was loaded in triton_cause\.py:{OFEXPERTS} from buffer #\d+ .argument 2., element 40 of 100 "),
    _triton("rows", r"index 5000 was loaded in triton_cause\.py:{OFROWS} from buffer #\d+ .argument 2., element 37 of 100 "),
    _triton("wrap", r"\d+ \* 1048576 wrapped at 32 bits in triton_cause\.py:{WRAP}: -\d+ instead of \d+; 64-bit arithmetic"),
]
