"""The zoo: planted bugs, a row each, and for each a correct twin that does the same with room for it, or in the right order.

The programs are those of tests/gpu: programs/NAME.cu (with NAME.cu's kernels and marks) and stories/NAME.py. A row has

kind      what is wrong            kernel, mark   who does it: the line with this mark in the program's source ("" where it is no kernel)
access    read, write, atomic      width          of the access, in bytes
bytes     of the buffer or piece   thread         a pattern of the blocks and threads that may be bad first, as "7,0,0 104,0,0"
distance  of its first bad byte: from the end of the buffer, or, negative, from its start; None where that is not the point
call      a pattern of the call on the host that is wrong, where it is no kernel
own       the options of cufence that are for such a bug, where the default ones are not
sanitizer the tool of compute-sanitizer that is for it, where memcheck is not
twin      arguments; ROOMY: the same program, whose buffers have room for what it does
reason    why the default options miss it, where they do

A report is at the bug if it names the kernel, the line, the buffer or the call of its row: judge.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge import Facts

PROGRAMS = Path(__file__).resolve().parents[1] / "gpu" / "programs"
STORIES = PROGRAMS.parent / "stories"
ROOMY = ("roomy",)
ANY = "*"  # the only mark of a program
LIBRARIES = {"cupy": "CuPy", "jax": "JAX", "compile": "torch.compile", "numba": "numba", "aoti": "AOTI"}


@dataclass(frozen=True)
class Bug:
    name: str
    program: str  # NAME.cu or NAME.py
    arguments: tuple[str, ...]
    kind: str
    kernel: str = ""
    mark: str = ""
    access: str = ""
    width: int = 0
    distance: int | None = None
    own: tuple[str, ...] = ()
    sanitizer: str = "memcheck"
    twin: tuple[str, ...] = ()
    twin_program: str = ""  # if it is another
    reason: str = ""
    report: str = ""  # public threads with such a bug
    bytes: int = 0
    thread: str = ""
    call: str = ""

    @property
    def source(self) -> Path:
        return (PROGRAMS if self.program.endswith(".cu") else STORIES) / self.program

    @property
    def is_python(self) -> bool:
        return self.program.endswith(".py")

    @property
    def framework(self) -> str:
        if not self.is_python:
            return "CUDA"
        return next((name for word, name in LIBRARIES.items() if word in self.program), "Triton" if "triton" in self.source.read_text() else "PyTorch")

    def place(self) -> tuple[str, int | None]:
        """File and line of the bad access; the kernel of some stories is in another file."""
        mark = re.compile(r"(#|//) FAULT(:.*)?$" if self.mark == ANY else rf"(#|//) (FAULT )?{self.mark}$")
        for file in (self.source, STORIES / ("jax_kernel.cu" if "jax" in self.program else "k_oob.py")) if self.mark else ():
            for number, text in enumerate(file.read_text().splitlines(), 1):
                if mark.search(text):
                    return file.name, number
        return self.program, None

    def facts(self) -> Facts:
        return Facts(self.kind, self.kernel, *self.place(), self.access, self.bytes, self.width, self.distance, self.thread, self.call, self.program)


def _rerun(kind: str, access: str, width: int, distance: int | None = 0, **more: object) -> Bug:
    kernel = {"pinned": "by_host", "registered": "through_host", "managed": "by_host"}.get(kind, kind)
    kernel = "store_4" if kind in ("large", "busy", "graph", "updated", "late", "null", "wild", "green") else kernel
    facts: dict[str, Any] = {"what": "overrun", "bytes": 1000 * width, "thread": _LAST, "twin": (kind, *ROOMY), **more}
    return Bug(f"rerun {kind}", "rerun.cu", (kind,), facts.pop("what"), kernel, kernel, access, width, distance, **facts)


def _cuda(program: str, kind: str, what: str, kernel: str, access: str, width: int, distance: int | None, **more: object) -> Bug:
    facts: dict[str, Any] = {"mark": kind, "twin": (kind, *ROOMY), **more}
    return Bug(f"{program} {kind}", f"{program}.cu", (kind,), what, kernel, facts.pop("mark"), access, width, distance, **facts)


def _python(story: str, what: str, kernel: str, access: str, width: int, distance: int | None, *arguments: str, **more: object) -> Bug:
    facts: dict[str, Any] = {"mark": ANY, "twin": ROOMY, **more}
    return Bug(" ".join((story, *arguments)), f"{story}.py", arguments, what, kernel, facts.pop("mark"), access, width, distance, **facts)


_LAST, _437, _ONE, _ANY_BLOCK = "7,0,0 104,0,0", "3,0,0 53,0,0", r"0,0,0 33,0,0", r"[0-7],0,0 \d+,0,0"
_PROGRAM = r"7,0,0 \d+,0,0"  # of Triton, whose threads have more elements
_NAN = {"own": ("--nan", "report"), "reason": "nan= looks for them"}
_STREAMS = {"own": ("--set", "streams=on+host"), "reason": "two streams, and nothing faults: streams= watches them"}
_UNINIT = {"sanitizer": "initcheck", "reason": "no access is out of bounds; integers and float64 are for initcheck"}
_FRESH = {"own": ("hunt", "--modes", "fresh"), "sanitizer": "initcheck", "reason": "no access is out of bounds: hunt --modes fresh fills new memory with NaN"}
_ROUNDED = "a size is rounded up to 16 bytes, and what lies between is only watched for writes: align=auto leaves nothing there"
_POOL = "within one allocation nothing faults: what the pool poisons is only watched for writes, which tells the kernel, but not the line"
_UNUSED = {"twin": ("unused",), "twin_program": "freed.cu"}

BUGS = [
    *(_cuda("moved_on", kind, "wrong index from memory", kind, access, width, 16 * width, bytes=1000 * width, thread=_437) for kind, access, width in (
        ("gather", "read", 4), ("gather_8", "read", 8), ("gather_16", "read", 16), ("gather_1", "read", 1), ("heavy", "read", 4), ("count", "atomic", 4))),
    _cuda("moved_on", "chase", "wrong pointer from memory", "chase", "read", 8, 0, bytes=16000, thread=r"7,0,0 (9[6-9]|10[0-3]),0,0"),
    _cuda("moved_on", "search", "overrun", "search", "read", 8, 0, bytes=48, thread=_437, report="CuPy 14.2, searchsorted of all-NaN bins"),
    _cuda("moved_on", "fill", "overrun", "fill", "write", 4, 0, bytes=32000, thread=r"6,0,0 6[0-3],0,0"),
    _cuda("moved_on", "fill_strided", "overrun", "fill_strided", "write", 4, 0, bytes=32000, thread=r"[07],0,0 \d+,0,0"),
    _cuda("cause", "pages", "wrong index from memory", "attend", "read", 4, None, bytes=131072, thread=r"5,2,0 \d+,0,0"),
    _cuda("cause", "experts", "wrong index from memory", "route", "read", 4, None, bytes=2097152, thread=r"1000,0,0 \d+,0,0"),
    _cuda("cause", "element", "overrun", "gather", "read", 4, None, bytes=4012, thread="7,0,0 107,0,0"),
    _cuda("cause", "scatter", "wrong index from memory", "scatter", "write", 4, 68, bytes=4012, thread=_437),
    _cuda("cause", "wrap", "32-bit wrap", "mark", "write", 1, None, bytes=3 << 30, thread=r"(1[6-9]|2[0-3]),0,0 \d+,0,0", twin=("wrap_fits",)),
    _cuda("cause", "wrap_bytes", "32-bit wrap", "mark_bytes", "write", 4, None, bytes=3 << 30, thread=_ANY_BLOCK, twin=("wrap_bytes_fits",)),
    _cuda("cause", "stride", "overrun", "matrix", "write", 4, None, bytes=9600, thread=r"[01],[4-7],0 \d+,\d+,0"),
    *(_rerun(kind, "write", width) for kind, width in (
        ("store_2", 2), ("store_half", 2), ("store_4", 4), ("store_8", 8), ("store_16", 16), ("by_struct", 4), ("nested", 4), ("cooperative", 4),
        ("much_shared", 4), ("by_table", 4), ("busy", 4), ("graph", 4), ("updated", 4), ("green", 4), ("pinned", 4),
        ("registered", 4), ("managed", 4))),
    _rerun("no_mask", "write", 4, thread=r"7,0,0 (10[4-9]|11\d|12[0-7]),0,0"),
    _rerun("large", "write", 4, bytes=3 << 30, thread="6291456,0,0 0,0,0"),
    *(_rerun(kind, "atomic", width) for kind, width in (("add", 4), ("add_8", 8), ("add_float", 4), ("add_half2", 4), ("exchange", 4), ("swap", 4), ("swap_8", 8))),
    _rerun("before", "write", 4, -4, what="underrun", thread="0,0,0 0,0,0", own=("--set", "side=start"),
           reason="side=end has no guard in front of a buffer; the write is found as one into its slack"),
    _rerun("late", "write", 4, None, what="use after free", thread=_ANY_BLOCK, own=("--set", "uaf=strict")),
    _rerun("null", "write", 4, None, what="null pointer", bytes=0, thread=_ANY_BLOCK),
    _rerun("wild", "write", 4, None, what="wild pointer", bytes=0, thread=_ANY_BLOCK),
    *(_cuda("which", kind, "overrun", "fill", "write", 4, 0, bytes=4000, thread=_LAST, mark="fill", twin=(kind, "right")) for kind in (
        "streams", "graph", "distinct", "equal")),
    _cuda("which", "read", "overrun", "sum", "read", 4, 0, bytes=4000, thread=_LAST, mark="sum", twin=("read", "right")),
    *(_cuda("freed", kind, "freed pointer in a launch", kernel, "", 0, None, bytes=4000, thread=_ANY_BLOCK, mark=kernel, twin=(twin,)) for kind, kernel, twin in (
        ("same_stream", "scale", "unused"), ("waited", "scale", "unused"), ("behind_work", "scale", "unused"), ("loop", "scale", "unused"),
        ("of_struct", "scale_of", "list"), ("other_stream", "scale", "list"), ("graph", "scale", "graph_in_order"))),
    *(_cuda("pool", kind, what, "fill", "write", 4, None, bytes=1000, thread=thread, mark="WRITES", twin=("clean",), reason=_POOL) for kind, what, thread in (
        ("past", "overrun inside a pool", "0,0,0 25[01],0,0"), ("late", "use after free inside a pool", "0,0,0 0,0,0"))),
    *(Bug(f"slack {' '.join(kind)}", "slack.cu", kind, what, "store_at", ANY, "write", 1, distance, bytes=1000, thread=r"0,0,0 1?\d,0,0", twin=("clean",))
      for kind, what, distance in ((("before",), "underrun", -16), (("before", "async"), "underrun", -16), (("tail",), "overrun", 0), (("tail", "async"), "overrun", 0))),
    *(_cuda("tensor_map", kind, what, kernel, access, 0, None, bytes=65536, thread=r"\d+,0,0 0,0,0", mark=mark, twin=("good",)) for kind, what, kernel, access, mark in (
        ("load", "tensor map too large", "read_tile", "read", "load"), ("store", "tensor map too large", "write_tile", "write", "store"),
        ("add", "tensor map too large", "write_tile", "atomic", "add"), ("freed", "tensor map of a freed buffer", "read_tile", "read", "load"),
        ("copied", "tensor map of a freed buffer", "read_copied", "read", "load"), ("bulk", "overrun", "read_bulk", "read", "bulk"))),
    _cuda("host_copies", "again", "pinned buffer reused in flight", "", "", 0, None, bytes=4194304, call=r"cu(da)?Memcpy\w*Async", twin=("event",), **_STREAMS),
    _cuda("host_copies", "freed", "pinned buffer freed in flight", "", "", 0, None, bytes=32, call=r"cu(da|Mem)FreeHost", twin=("waited",), **_STREAMS),
    *(_cuda("exceptions", kind, kind, kernel, "", 0, None, thread=thread, mark=kind, **_UNUSED) for kind, kernel, thread in (
        ("trap", "trap", _ONE), ("assert", "fails", _ONE), ("illegal", "illegal", r"0,0,0 ([12]?\d|3[012]),0,0"))),
    _cuda("exceptions", "misaligned", "misaligned", "misaligned", "", 0, None, bytes=256, thread=_ONE, **_UNUSED),
    Bug("double_free", "double_free.cu", (), "double free", bytes=4000, call=r"cu(da|Mem)Free\b|cuMemFree_v2|second free", **_UNUSED),
    Bug("leak", "leak.cu", (), "leak", bytes=1 << 20, own=("--set", "leaks=on"), sanitizer="leak-check", reason="leaks=on lists what was never freed", **_UNUSED),
    *(_cuda("nan", kind, "NaN", kernel, "", 0, None, bytes=400000, mark="", **_UNUSED, **_NAN) for kind, kernel in (("log", "log_of"), ("divide", "divide"))),
    *(_cuda("unwritten", kind, "uninitialised read", kernel, "read", 0, None, bytes=10000 * width, mark="", twin=(kind, "written"), **by)
      for kind, kernel, width, by in (
        ("ints", "add_ints", 4, _UNINIT), ("flags", "choose", 1, _UNINIT), ("bytes", "add_bytes", 1, _UNINIT), ("floats", "accumulate", 4, _FRESH),
        ("doubles", "scale_doubles", 8, _UNINIT), ("halves", "scale_halves", 2, _FRESH), ("total", "sum", 4, _FRESH),
        ("maximum", "largest", 4, _UNINIT), ("pool", "add_ints", 4, _UNINIT), ("copied", "add_ints", 4, _UNINIT))),
    _python("triton_overrun", "overrun", "k_oob", "read", 4, 0, bytes=4000, thread=_LAST),
    _python("triton_store_only", "overrun", "k_store", "write", 4, 0, bytes=4000, thread=_LAST),
    _python("triton_store_half", "overrun", "k_store_half", "write", 2, 0, bytes=2000, thread=_PROGRAM),
    _python("triton_atomic", "overrun", "k_atomic", "atomic", 4, 0, bytes=4000, thread=_PROGRAM),
    _python("graph_overrun", "overrun", "k_oob", "read", 4, 0, bytes=4000, thread=_LAST),
    _python("big_buffer", "overrun", "k_big", "read", 4, 0, bytes=3670016, thread=r"7168,0,0 \d+,0,0"),
    _python("fp16_odd", "overrun", "k_half", "read", 2, 0, bytes=2002, thread=_PROGRAM, own=("--set", "align=auto"), reason=_ROUNDED),
    _python("underrun", "underrun", "k_before", "read", 4, -4, bytes=4096, thread=r"0,0,0 \d+,0,0", own=("--set", "side=start"),
            reason="side=end has no guard in front of a buffer"),
    _python("use_after_free", "use after free", "k_late", "read", 4, None, bytes=4000, thread=_ANY_BLOCK, own=("--set", "uaf=strict")),
    _python("late_in_a_loop", "use after free", "k_late", "read", 4, None, bytes=4000, thread=_ANY_BLOCK),
    _python("freed_argument", "freed pointer in a launch", "k_late", "read", 4, None, bytes=4000, thread=_ANY_BLOCK),
    _python("freed_graph", "freed pointer in a graph", "k_scale", "read", 0, None, "freed", bytes=4000, thread=_ANY_BLOCK, twin=("kept",)),
    *(_python("triton_cause", what, f"k_{kind}", access, width, None, kind, bytes=size, thread=thread, mark=kind.upper(), twin=twin)
      for kind, what, access, width, size, thread, twin in (
        ("pages", "wrong index from memory", "read", 4, 131072, r"2,5,0 \d+,0,0", ("pages", "7")),
        ("experts", "wrong index from memory", "read", 4, 6400, r"40,0,0 \d+,0,0", ("experts", "4")),
        ("rows", "wrong index from memory", "read", 4, 25600, r"2,0,0 \d+,0,0", ("rows", "50")),
        ("wrap", "32-bit wrap", "write", 1, 3 << 30, r"\d+,0,0 \d+,0,0", ("wrap", "2047")))),
    _python("compile_custom_op", "overrun", "k_oob", "read", 4, 0, "custom_op", bytes=4000, thread=_LAST, twin=(), twin_program="compile_default.py"),
    _python("cupy_overrun", "overrun", "k_oob", "read", 4, 0, bytes=4000, thread=_LAST, mark=""),
    _python("jax_overrun", "overrun", "k_oob", "read", 4, 0, "nvcc", bytes=4096, thread="8,0,0 0,0,0", twin=(), twin_program="jax_clean.py"),
    _python("numba_overrun", "overrun", "k_oob", "read", 4, 0, "wrong", bytes=4000, thread=_LAST, twin=("right",)),
    _python("aoti_overrun", "overrun", "k_double", "read", 4, 0, "1000", bytes=4000, thread=r"0,0,0 \d+,0,0", mark="", twin=("1024",)),
    _python("pool_overrun", "overrun inside a pool", "k_past", "read", 4, 0, "cupy", "wrong", bytes=4096, thread="8,0,0 0,0,0", mark="", twin=("cupy", "right")),
    _python("streams_race", "missing record_stream", "", "", 0, None, "race", bytes=4004, call="PyTorch's allocator|cuMemFreeAsync", twin=("record",), **_STREAMS),
    _python("host_copies", "pinned buffer reused in flight", "", "", 0, None, "staging", bytes=4194304, call=r"cu(da)?Memcpy\w*Async", mark="STAGING", twin=("right",),
            **_STREAMS),
    _python("triton_tensor_map", "tensor map too large", "copy_rows", "read", 0, None, "large", bytes=65536, thread=r"\d+,0,0 \d+,0,0", twin=("right",)),
    *(_python("nan_eager", "NaN", "", "", 0, None, kind, bytes=256000, mark=f"NAN {kind}", twin=(), twin_program="nan_clean.py", **_NAN) for kind in ("log", "divide")),
]  # fmt: skip
