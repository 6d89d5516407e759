"""What is expected of faults that the second launch has to tell: programs/which.cu, variables.cu and exceptions.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import marked_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Program = tuple[str, str, dict[str, object]]


def _which(sources: Path) -> Iterator[Program]:
    """Of many launches that may have been the one that faulted, the second launch finds it. By buffer number."""
    text = (sources / "which.cu").read_text()
    for kind, kernel, access, buffer in (
        ("streams", "fill", "WRITE", 1),
        ("graph", "fill", "WRITE", 4),
        ("distinct", "fill", "WRITE", 6),
        ("equal", "fill", "WRITE", 3),
        ("read", "sum", "READ", 1),
    ):
        report = [
            rf"out-of-bounds {access} of 4 bytes, 0 bytes past the end of buffer #{buffer}\b",
            rf"kernel +{kernel}\b.*exact",
            rf"which\.cu:{marked_line(text, f'FAULT {kernel}')}\b",
            r"block \(7,0,0\) thread \(104,0,0\)",
            r"address .*(re-run|derived|exact)",
        ]
        yield "which", kind, {"report": report}


def _variables(sources: Path) -> Iterator[Program]:
    """The pointer comes from a variable of the module, which the second launch must have."""
    text = (sources / "variables.cu").read_text()
    for kind, kernel in (
        ("device", "by_variable"),
        ("kernel", "by_variable"),
        ("struct", "by_struct"),
        ("constant", "by_constant"),
        ("value", "by_value"),
    ):
        report = [
            r"out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1\b",
            rf"variables\.cu:{marked_line(text, f'FAULT {kernel}')}\b",
            r"block \(7,0,0\) thread \(104,0,0\)",
            r"written +4 bytes past the end: 2\.5 +re-run",
        ]
        yield "variables", kind, {"report": report}
    yield "variables", "unset", {"report": ["null-pointer WRITE of 4 bytes", r"kernel +by_variable\b"]}


def _exceptions(sources: Path) -> Iterator[Program]:
    """What the driver's dump contains (H100, driver 580.159): for a trap no exception, but a warp that has stopped; for a failed
    assertion no PC but those of the lanes; for an infinite recursion local memory."""
    text = (sources / "exceptions.cu").read_text()
    for kind, kernel, name, place, what, error in (
        ("trap", "trap", "trap", (0, 33), "the kernel trapped by itself", "cudaErrorLaunchFailure"),
        ("trap_last", "trap_last", "trap", (1, 1), "the kernel trapped by itself", "cudaErrorLaunchFailure"),
        ("assert", "fails", "assertion failed", (0, 33), "no buffer is involved", "cudaErrorAssert"),
        ("illegal", "illegal", "illegal instruction", (0, 0), "the mask of a __syncwarp", "cudaErrorIllegalInstruction"),
        ("shared", "shared_store", "out-of-range address", (0, 33), "outside the shared memory of its block", "cudaError"),
    ):
        report = [
            rf"cufence: exception: {name}\b",
            rf"exceptions\.cu:{marked_line(text, f'FAULT {kind}')}\b",
            rf"kernel +{kernel}\b",
            rf"block \({place[0]},0,0\) thread \({place[1]},0,0\)",
            what,
        ]
        yield "exceptions", kind, {"report": report, "output": [error], "files": {"report.json": [r'"kind": ?"exception"']}}
    what = "misaligned WRITE of 4 bytes, not a multiple of 4, 65 bytes into buffer #1"
    report = [what, r"kernel +misaligned\b", r"thread \(33,0,0\)"]
    yield "exceptions", "misaligned", {"report": report, "output": ["cudaErrorMisalignedAddress"]}
    report = ["cufence: exception: out-of-range address", r"kernel +recursion\b", "outside the local memory of its thread: its stack", "a recursion"]
    yield "exceptions", "recursion", {"report": report, "files": {"report.json": [r'"kind": ?"exception"']}}


def programs(sources: Path) -> Iterator[Program]:
    yield from _which(sources)
    yield from _variables(sources)
    yield from _exceptions(sources)
