"""The zoo: planted bugs, a row each, and for each a correct twin that does the same with room for it, or in the right order.

The programs are those of tests/gpu: programs/NAME.cu (with NAME.cu's kernels and marks) and stories/NAME.py. A row has

kind      what is wrong            kernel, mark   who does it: the line with this mark in the program's source ("" where it is no kernel)
access    read, write, atomic      width          of the access, in bytes
distance  of its first bad byte: from the end of the buffer, or, negative, from its start; None where that is not the point
own       the options of cufence that are for such a bug, where the default ones are not
sanitizer the tool of compute-sanitizer that is for it, where memcheck is not
twin      arguments; ROOMY: the same program, whose buffers have room for what it does
reason    why the default options miss it, where they do
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[1] / "gpu" / "programs"
STORIES = PROGRAMS.parent / "stories"
ROOMY = ("roomy",)
ANY = "*"  # the only mark of a program
LIBRARIES = {"cupy": "CuPy", "jax": "JAX", "compile": "torch.compile"}


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
    twin: tuple[str, ...] | None = None  # None: none can be
    twin_program: str = ""  # if it is another
    reason: str = ""
    report: str = ""  # public threads with such a bug

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

    def line(self) -> int | None:
        """Of the bad access; the kernel of some stories is in another file."""
        mark = re.compile(r"FAULT(:.*)?$" if self.mark == ANY else rf"FAULT {self.mark}$")
        for file in (self.source, STORIES / "k_oob.py") if self.mark else ():
            for number, text in enumerate(file.read_text().splitlines(), 1):
                if mark.search(text):
                    return number
        return None


def _rerun(kind: str, access: str, width: int, distance: int | None = 0, **more: object) -> Bug:
    kernel = {"pinned": "by_host", "registered": "through_host", "managed": "by_host"}.get(kind, kind)
    kernel = "store_4" if kind in ("large", "busy", "graph", "updated", "late", "null", "wild", "green") else kernel
    twin: object = more.pop("twin", (kind, *ROOMY))
    return Bug(f"rerun {kind}", "rerun.cu", (kind,), str(more.pop("what", "overrun")), kernel, kernel, access, width, distance, twin=twin, **more)  # type: ignore[arg-type]


def _cuda(program: str, kind: str, what: str, kernel: str, access: str, width: int, distance: int | None, **more: object) -> Bug:
    twin: object = more.pop("twin", (kind, *ROOMY))
    return Bug(f"{program} {kind}", f"{program}.cu", (kind,), what, kernel, str(more.pop("mark", kind)), access, width, distance, twin=twin, **more)  # type: ignore[arg-type]


def _python(story: str, what: str, kernel: str, access: str, width: int, distance: int | None, *arguments: str, **more: object) -> Bug:
    twin: object = more.pop("twin", ROOMY)
    return Bug(" ".join((story, *arguments)), f"{story}.py", arguments, what, kernel, str(more.pop("mark", ANY)), access, width, distance, twin=twin, **more)  # type: ignore[arg-type]


_NAN = {"own": ("--nan", "report"), "sanitizer": "initcheck"}
_STREAMS = {"own": ("--set", "streams=on+host"), "reason": "two streams, and nothing faults: streams= watches them"}
_UNINIT = {"own": ("hunt", "--uninit"), "sanitizer": "initcheck", "reason": "no access is out of bounds: hunt --uninit runs it with several fills"}
_ROUNDED = "a size is rounded up to 16 bytes, and what lies between is only watched for writes: align=auto leaves nothing there"

BUGS = [
    *(_cuda("moved_on", kind, "wrong index from memory", kind, access, width, 16 * width) for kind, access, width in (
        ("gather", "read", 4), ("gather_8", "read", 8), ("gather_16", "read", 16), ("gather_1", "read", 1), ("heavy", "read", 4), ("count", "atomic", 4))),
    _cuda("moved_on", "chase", "wrong pointer from memory", "chase", "read", 8, 0),
    _cuda("moved_on", "search", "overrun", "search", "read", 8, 0, report="CuPy 14.2, searchsorted of all-NaN bins"),
    _cuda("moved_on", "fill", "overrun", "fill", "write", 4, 0),
    _cuda("moved_on", "fill_strided", "overrun", "fill_strided", "write", 4, 0),
    _cuda("cause", "pages", "wrong index from memory", "attend", "read", 4, None),
    _cuda("cause", "experts", "wrong index from memory", "route", "read", 4, None),
    _cuda("cause", "element", "overrun", "gather", "read", 4, None),
    _cuda("cause", "scatter", "wrong index from memory", "scatter", "write", 4, 68),
    _cuda("cause", "wrap", "32-bit wrap", "mark", "write", 1, None, twin=None),
    _cuda("cause", "wrap_bytes", "32-bit wrap", "mark_bytes", "write", 4, None, twin=None),
    _cuda("cause", "stride", "overrun", "matrix", "write", 4, None),
    *(_rerun(kind, "write", width) for kind, width in (
        ("store_2", 2), ("store_half", 2), ("store_4", 4), ("store_8", 8), ("store_16", 16), ("by_struct", 4), ("nested", 4), ("cooperative", 4),
        ("much_shared", 4), ("no_mask", 4), ("by_table", 4), ("large", 4), ("busy", 4), ("graph", 4), ("updated", 4), ("green", 4), ("pinned", 4),
        ("registered", 4), ("managed", 4))),
    *(_rerun(kind, "atomic", width) for kind, width in (("add", 4), ("add_8", 8), ("add_float", 4), ("add_half2", 4), ("exchange", 4), ("swap", 4), ("swap_8", 8))),
    _rerun("before", "write", 4, -4, what="underrun", own=("--set", "side=start"), reason="side=end has no guard in front of a buffer; the write is found as one into its slack"),
    _rerun("late", "write", 4, None, what="use after free", own=("--set", "uaf=strict"), twin=None),
    _rerun("null", "write", 4, None, what="null pointer", twin=None),
    _rerun("wild", "write", 4, None, what="wild pointer", twin=None),
    *(_cuda("which", kind, "overrun", "fill", "write", 4, 0, mark="fill", twin=None) for kind in ("streams", "graph", "distinct", "equal")),
    _cuda("which", "read", "overrun", "sum", "read", 4, 0, mark="sum", twin=None),
    *(_cuda("freed", kind, "freed pointer in a launch", "", "", 0, None, mark="", twin=(twin,)) for kind, twin in (
        ("same_stream", "unused"), ("waited", "unused"), ("behind_work", "unused"), ("loop", "unused"), ("of_struct", "list"), ("other_stream", "list"),
        ("graph", "graph_in_order"))),
    _cuda("paged", "early", "row freed too early", "write_token", "write", 4, None, mark="", twin=("clean",)),
    _cuda("paged", "off_by_one", "wrong row in a table", "", "read", 4, None, mark="", twin=("tables",)),
    _cuda("paged", "other", "row of another request", "", "read", 4, None, mark="", twin=("tables",)),
    _cuda("paged", "stale", "row read after its release", "attend", "read", 4, None, mark="", twin=("clean",), own=("--nan", "report"), reason="a read of a free row gives NaN: nan= names it"),
    _cuda("pool", "past", "overrun inside a pool", "fill", "write", 4, 0, mark="", twin=("clean",)),
    _cuda("pool", "late", "use after free inside a pool", "fill", "write", 4, None, mark="", twin=("clean",)),
    *(Bug(f"slack {' '.join(kind)}", "slack.cu", kind, what, "store_at", "", "write", 4, distance, twin=("clean",)) for kind, what, distance in (
        (("before",), "underrun", -4), (("before", "async"), "underrun", -4), (("tail",), "overrun", 0), (("tail", "async"), "overrun", 0))),
    *(_cuda("tensor_map", kind, what, "", access, 0, None, mark="", twin=("good",)) for kind, what, access in (
        ("load", "tensor map too large", "read"), ("store", "tensor map too large", "write"), ("add", "tensor map too large", "atomic"),
        ("freed", "tensor map of a freed buffer", "read"), ("copied", "tensor map too large", "read"), ("bulk", "overrun", "read"))),
    _cuda("host_copies", "again", "pinned buffer reused in flight", "", "write", 0, None, mark="", twin=("waited",), **_STREAMS),
    _cuda("host_copies", "freed", "pinned buffer freed in flight", "", "", 0, None, mark="", twin=("event",), **_STREAMS),
    *(_cuda("exceptions", kind, kind, "", "", 0, None, mark="", twin=("unused",), twin_program="freed.cu") for kind in ("trap", "assert", "illegal", "misaligned")),
    Bug("double_free", "double_free.cu", (), "double free", twin=("unused",), twin_program="freed.cu"),
    Bug("leak", "leak.cu", (), "leak", own=("--set", "live=leaks"), twin=("unused",), twin_program="freed.cu", reason="live=leaks lists what was never freed"),
    *(_cuda("nan", kind, "NaN", "", "", 0, None, mark="", twin=("unused",), twin_program="freed.cu", reason="nan= looks for them", **_NAN) for kind in ("log", "divide")),
    *(_cuda("unwritten", kind, "uninitialised read", "", "read", 0, None, mark="", twin=(kind, "written"), **_UNINIT) for kind in (
        "ints", "flags", "bytes", "floats", "doubles", "halves", "total", "maximum", "pool", "copied")),
    _cuda("deep", "race", "race in shared memory", "shift", "read", 4, None, mark="", twin=("clean",), own=("hunt", "--deep"), sanitizer="racecheck", reason="hunt --deep"),
    _cuda("deep", "fresh", "uninitialised read", "add", "read", 4, None, mark="", twin=("clean",), own=("hunt", "--deep"), sanitizer="initcheck", reason="hunt --deep"),
    _python("triton_overrun", "overrun", "k_oob", "read", 4, 0),
    _python("triton_store_only", "overrun", "k_store", "write", 4, 0),
    _python("triton_store_half", "overrun", "k_store_half", "write", 2, 0),
    _python("triton_atomic", "overrun", "k_atomic", "atomic", 4, 0),
    _python("graph_overrun", "overrun", "k_oob", "read", 4, 0),
    _python("big_buffer", "overrun", "k_big", "read", 4, 0),
    _python("fp16_odd", "overrun", "k_half", "read", 2, 0, mark="", own=("--set", "align=auto"), reason=_ROUNDED),
    _python("underrun", "underrun", "k_before", "read", 4, -4, own=("--set", "side=start"), reason="side=end has no guard in front of a buffer"),
    _python("use_after_free", "use after free", "k_late", "read", 4, None, own=("--set", "uaf=strict")),
    _python("late_in_a_loop", "use after free", "k_late", "read", 4, None),
    _python("freed_argument", "freed pointer in a launch", "k_late", "read", 4, None),
    _python("freed_graph", "freed pointer in a graph", "", "", 0, None, "freed", mark="", twin=("kept",)),
    *(_python("triton_cause", what, f"k_{kind}", access, width, None, kind, mark="", twin=twin) for kind, what, access, width, twin in (
        ("pages", "wrong index from memory", "read", 4, None), ("experts", "wrong index from memory", "read", 4, None),
        ("rows", "wrong index from memory", "read", 4, None), ("wrap", "32-bit wrap", "write", 1, None))),
    _python("compile_custom_op", "overrun", "k_oob", "read", 4, 0, "custom_op", twin=(), twin_program="compile_default.py"),
    _python("cupy_overrun", "overrun", "k_oob", "read", 4, 0, mark=""),
    _python("jax_overrun", "overrun", "", "read", 4, 0, "nvcc", mark="", twin=(), twin_program="jax_clean.py"),
    _python("pool_overrun", "overrun inside a pool", "k_past", "read", 4, 0, "cupy", "wrong", mark="", twin=("cupy", "right")),
    _python("streams_race", "missing record_stream", "", "", 0, None, "race", mark="", twin=("record",), **_STREAMS),
    _python("host_copies", "pinned buffer reused in flight", "", "write", 0, None, "staging", mark="", twin=("right",), **_STREAMS),
    _python("triton_tensor_map", "tensor map too large", "", "read", 0, None, "large", mark="", twin=("right",)),
    *(_python("nan_eager", "NaN", "", "", 0, None, kind, mark="", twin=(), twin_program="nan_clean.py", reason="nan= looks for them", **_NAN) for kind in ("log", "divide")),
]  # fmt: skip
