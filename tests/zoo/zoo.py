"""The zoo: planted bugs, a row each, and for each a correct twin that does the same with room for it, or in the right order.

The programs are those of tests/gpu: programs/NAME.cu (with NAME.cu's kernels and marks) and stories/NAME.py. matrix.py runs each row under
every tool; tests/gpu/run.py runs it under cufence alone, in several ways, and asks for all that the row has. A row has

kind      what is wrong            kernel, mark   who does it: the line with this mark in the program's source ("" where it is no kernel)
access    read, write, atomic      width          of the access, in bytes
bytes     of the buffer or piece   thread         a pattern of the blocks and threads that may be bad first, as "7,0,0 104,0,0"
distance  of its first bad byte: from the end of the buffer, or, negative, from its start; None where that is not the point
call      a pattern of the call on the host that is wrong, where it is no kernel
own       the options of cufence that are for such a bug, where the default ones are not
sanitizer the tool of compute-sanitizer that is for it, where memcheck is not
twin      arguments; ROOMY: the same program, whose buffers have room for what it does
reason    why the default options miss it, where they do

and for tests/gpu/run.py

says      patterns of cufence's report, as text or JSON: what is special about this bug; {MARK} is the number of the line with that mark
prints    patterns of the program's output
status    the program's own exit status; 86 where it ends well, and cufence says so
lacks     what cufence's report does not name, of what the row has
ways      how cufence is put under the program: tests/gpu/harness.py
right     a pattern of the twin's output; the twin is run too, unless it is ROOMY

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
    says: tuple[str, ...] = ()
    prints: tuple[str, ...] = ()
    status: int = 1
    lacks: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    right: str = ""
    case: str = ""  # the name in tests/gpu, if it is not this one with _

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


def rerun(kind: str, access: str, width: int, distance: int | None = 0, written: str = "", **more: object) -> Bug:
    """A store at the end of a kernel, of which only the second launch knows address and thread."""
    kernel = {"pinned": "by_host", "registered": "through_host", "managed": "by_host"}.get(kind, kind)
    kernel = "store_4" if kind in ("large", "busy", "graph", "updated", "late", "null", "wild", "green", "everywhere", "own_dump", "child", "graph_memory") else kernel
    says = (r"address .*(re-run|derived|exact)", *((f"written +{written}", r'"outcome": ?"faulted"') if written else (r'"rerun"',)))
    facts: dict[str, Any] = {"what": "overrun", "bytes": 1000 * width, "thread": _LAST, "twin": (kind, *ROOMY), "says": says, **more}
    return Bug(f"rerun {kind}", "rerun.cu", (kind,), facts.pop("what"), kernel, kernel, access, width, distance, **facts)


def _cuda(program: str, kind: str, what: str, kernel: str, access: str, width: int, distance: int | None, **more: object) -> Bug:
    facts: dict[str, Any] = {"mark": kind, "twin": (kind, *ROOMY), **more}
    return Bug(f"{program} {kind}", f"{program}.cu", (kind,), what, kernel, facts.pop("mark"), access, width, distance, **facts)


def _python(story: str, what: str, kernel: str, access: str, width: int, distance: int | None, *arguments: str, **more: object) -> Bug:
    facts: dict[str, Any] = {"mark": ANY, "twin": ROOMY, **more}
    return Bug(" ".join((story, *arguments)), f"{story}.py", arguments, what, kernel, facts.pop("mark"), access, width, distance, **facts)


_LAST, _437, _ONE, _ANY_BLOCK = "7,0,0 104,0,0", "3,0,0 53,0,0", r"0,0,0 33,0,0", r"[0-7],0,0 \d+,0,0"
_PROGRAM = r"7,0,0 \d+,0,0"  # of Triton, whose threads have more elements
HOOKED, RUN = ("run", "backend"), ("run",)
_NAN = {"own": ("--nan", "report"), "reason": "nan= looks for them", "status": 86}
_STREAMS = {"own": ("--set", "streams=on+host"), "reason": "two streams, and nothing faults: streams= watches them", "status": 86}
_UNINIT = {"sanitizer": "initcheck", "reason": "no access is out of bounds; integers and float64 are for initcheck", "status": 0}
_FRESH = {"own": ("hunt", "--modes", "fresh"), "sanitizer": "initcheck", "reason": "no access is out of bounds: hunt --modes fresh fills new memory with NaN",
          "status": 86}  # fmt: skip
_ROUNDED = "up to 15 bytes behind a size are only watched for writes: align=auto leaves none"
_POOL = "within one allocation nothing faults: what the pool poisons is only watched for writes, which tells the kernel, but not the line"
_TYPES = {2: "int16", 4: "float32", 8: "float64"}
_UNUSED = {"twin": ("unused",), "twin_program": "freed.cu", "right": "unused: cudaSuccess"}
_FREED = ("into buffer #\\d+(?: \"[^\"]*\")?, which has been freed", r"allocated at +\S", r"freed at +\S")
_INSIDE = "64-bit arithmetic gives an address inside buffer #1"
_AGAIN = r"written +\d bytes?(, beginning \d bytes?)? past the end.*re-run"
_TILE = ("is a tensor map", 512)

BUGS = [
    *(_cuda("moved_on", kind, "wrong index from memory", kind, access, width, 16 * width, bytes=1000 * width, thread=_437, status=3,
            says=(rf"{access.upper()} of {width} bytes?, {16 * width} bytes", r"address .*(re-run|exact)")) for kind, access, width in (
        ("gather", "read", 4), ("gather_8", "read", 8), ("gather_16", "read", 16), ("gather_1", "read", 1), ("heavy", "read", 4), ("count", "atomic", 4))),
    _cuda("moved_on", "chase", "wrong pointer from memory", "chase", "read", 8, 0, bytes=16000, thread=r"7,0,0 (9[6-9]|10[0-3]),0,0", status=3),
    _cuda("moved_on", "search", "overrun", "search", "read", 8, 0, bytes=48, thread=_437, report="CuPy 14.2, searchsorted of all-NaN bins", status=3),
    _cuda("moved_on", "fill", "overrun", "fill", "write", 4, 0, bytes=32000, thread=r"6,0,0 6[0-3],0,0", status=3, says=(r"written +16 bytes past the end: 2\.5",)),
    _cuda("moved_on", "fill_strided", "overrun", "fill_strided", "write", 4, 0, bytes=32000, thread=r"[07],0,0 \d+,0,0", status=3,
          says=(r"written +4 bytes past the end: 2\.5",)),
    *(_cuda("cause", kind, what, kernel, access, width, distance, bytes=size, thread=thread, twin=twin, status=3, says=("cause +", *says))
      for kind, what, kernel, access, width, distance, size, thread, twin, says in (
        ("pages", "wrong index from memory", "attend", "read", 4, None, 131072, r"5,2,0 \d+,0,0", ("pages", *ROOMY),
         (r"index 70 was loaded in cause\.cu:{LOAD pages} from buffer #3 \(argument 1\), element 21 of 32 ", "the kernel takes the index")),
        ("experts", "wrong index from memory", "route", "read", 4, None, 2097152, r"1000,0,0 \d+,0,0", ("experts", *ROOMY),
         (r"index -1 was loaded in cause\.cu:{LOAD experts} from buffer #3 \(argument 1\), element 1000 of 1003 ", "an index of -1")),
        ("element", "overrun", "gather", "read", 4, None, 4012, "7,0,0 107,0,0", ("element", *ROOMY),
         (r"was loaded in cause\.cu:{FAULT element} from buffer #3 \(argument 1\), element 1003 of 1003 .*, 0 bytes past its end",
          "the index itself was read outside of buffer #3")),
        ("scatter", "wrong index from memory", "scatter", "write", 4, 68, 4012, _437, ("scatter", *ROOMY),
         (r"index 1020 was loaded in cause\.cu:{FAULT scatter} from buffer #2 \(argument 0\), element 437 of 1003 ", "the kernel takes")),
        ("wrap", "32-bit wrap", "mark", "write", 1, None, 3 << 30, r"(1[6-9]|2[0-3]),0,0 \d+,0,0", ("wrap_fits",),
         (rf"\d+ \* 1048576 wrapped at 32 bits in cause\.cu:{{FAULT wrap}}: -\d+ instead of \d+; {_INSIDE}", "compute the index with 64 bits")),
        ("wrap_bytes", "32-bit wrap", "mark_bytes", "write", 4, None, 3 << 30, _ANY_BLOCK, ("wrap_bytes_fits",),
         (rf"\d+ \* 4 wrapped at 32 bits in cause\.cu:{{FAULT wrap_bytes}}: -\d+ instead of \d+; {_INSIDE}", "compute the index")),
        ("stride", "overrun", "matrix", "write", 4, None, 9600, r"[01],[4-7],0 \d+,\d+,0", ("stride", *ROOMY),
         (r"element \d+ of 4 bytes from argument 0 on: .*thread\.y \d \* 64 \(argument 3\)", "the stride of another shape")))),
    *(rerun(kind, "write", width, written=rf"{width} bytes past the end: ({value}).*re-run") for kind, width, value in (
        ("store_2", 2, "0x1234|3412"), ("store_half", 2, "0x3e00|003e"), ("store_4", 4, r"2\.5"), ("store_8", 8, r"2\.5|0x"), ("store_16", 16, ""),
        ("by_struct", 4, r"2\.5"), ("nested", 4, r"2\.5"), ("cooperative", 4, r"2\.5"), ("much_shared", 4, r"2\.5"))),
    *(rerun(kind, "write", 4, written=r"4 bytes past the end: 2\.5") for kind in ("by_table", "busy", "graph", "updated", "green", "pinned", "registered")),
    rerun("managed", "write", 4, says=("an argument points to managed memory", r'"outcome": ?"failed"'), lacks=("buffer", "distance", "thread")),
    rerun("no_mask", "write", 4, written=r"96 bytes past the end: 1000\.0 1000\.0.*re-run", thread=r"7,0,0 (10[4-9]|11\d|12[0-7]),0,0"),
    rerun("large", "write", 4, written=r"4 bytes past the end: 2\.5", bytes=3 << 30, thread="6291456,0,0 0,0,0"),
    *(rerun(kind, "atomic", width, says=(_AGAIN,)) for kind, width in (("add", 4), ("add_8", 8), ("add_float", 4), ("add_half2", 4), ("exchange", 4))),
    *(rerun(kind, "atomic", width) for kind, width in (("swap", 4), ("swap_8", 8))),
    rerun("before", "write", 4, -4, "4 bytes before", what="underrun", thread="0,0,0 0,0,0", own=("--set", "side=start"),
           reason="side=end has no guard in front of a buffer; the write is found as one into its slack"),
    rerun("late", "write", 4, None, what="use after free", thread=_ANY_BLOCK, own=("--set", "uaf=strict"), says=(_FREED[0],)),
    rerun("null", "write", 4, None, what="null pointer", bytes=0, thread=_ANY_BLOCK, says=("null-pointer WRITE",)),
    rerun("everywhere", "write", 4, None, thread=r"\d+,0,0 \d+,0,0", says=(r"kernel +store_4\b",), lacks=("thread", "buffer")),
    rerun("own_dump", "write", 4, says=("the program's own core dump: ",)),
    rerun("child", "write", 4),
    rerun("graph_memory", "write", 4, status=0, reason="a graph's allocation node: its memory is the driver's, and a note says so"),
    rerun("wild", "write", 4, None, what="wild pointer", bytes=0, thread=_ANY_BLOCK, says=("wild-address WRITE of 4 bytes at 0x123456789",)),
    *(_cuda("which", kind, "overrun", kernel, access, 4, 0, bytes=4000, thread=_LAST, mark=kernel, twin=(kind, "right"),
            says=(rf"{access.upper()} of 4 bytes, 0 bytes past the end of buffer #{number}\b", r"address .*(re-run|derived|exact)")) for kind, kernel, access, number in (
        ("streams", "fill", "write", 1), ("graph", "fill", "write", 4), ("distinct", "fill", "write", 6), ("equal", "fill", "write", 3), ("read", "sum", "read", 1))),
    *(_cuda("freed", kind, "freed pointer in a launch", kernel, "", 0, None, bytes=4000, thread=_ANY_BLOCK, mark=kernel, twin=(twin,),
            says=(*_FREED, r"argument 0( at byte 32)? points to this buffer"), right=f"{twin}: cudaSuccess") for kind, kernel, twin in (
        ("same_stream", "scale", "unused"), ("waited", "scale", "unused"), ("behind_work", "scale", "unused"), ("loop", "scale", "unused"),
        ("of_struct", "scale_of", "list"), ("other_stream", "scale", "list"), ("graph", "scale", "graph_in_order"))),
    *(Bug(f"freed {kind}", "freed.cu", (kind,), what, mark=mark, bytes=size, call=call, twin=(twin,), right=f"{twin}: cudaSuccess", status=86,
          prints=("launch: cudaErrorInvalidValue", f"{kind}: cudaSuccess"), says=(said, r"given by +cu\w+", r"allocated at +\S", r"freed at +\S"))
      for kind, what, mark, size, call, twin, said in (
        ("copy_node", "freed buffer of a copy in a graph", "late", 4000, r"cu(da)?GraphLaunch", "copies_in_order",
         r"host read out of bounds by cuGraphLaunch: reads 4000 bytes from byte 0 of buffer #\d+, which has been freed"),
        ("copy_in_child", "freed buffer of a copy in a child graph", "late", 4000, r"cu(da)?GraphLaunch", "copies_in_order",
         r"host read out of bounds by cuGraphLaunch: reads 4000 bytes from byte 0 of buffer #\d+, which has been freed"),
        ("set_node", "freed buffer of a set in a graph", "late", 4000, r"cu(da)?GraphLaunch", "copies_in_order",
         r"host write out of bounds by cuGraphLaunch: writes 4000 bytes from byte 0 of buffer #\d+, which has been freed"),
        ("texture", "freed buffer of a texture", "texture", 4096, r"cu(da)?LaunchKernel", "textures_in_order",
         r"use-after-free by cuLaunchKernel\w*: gives a kernel texture 0x[0-9a-f]+, as argument 0, of buffer #\d+, which has been freed"))),
    Bug("freed pool", "freed.cu", ("pool",), "pool memory freed in flight", mark="pool", bytes=4000, call=r"cu(da|Mem)Free", twin=("pool_waited",),
        right="pool_waited: cudaSuccess", prints=("pool: cudaSuccess",), says=(r"stream race by cuMemFree\S*: frees buffer #\d+, which work\S* ",), **_STREAMS),
    *(_cuda("pool", kind, what, "fill", "write", 4, None, bytes=1000, thread=thread, mark="WRITES", twin=("clean",), reason=_POOL, status=86, prints=("done",),
            lacks=("line", "thread"), right="done", says=(
                rf"cufence: WRITE to poisoned memory: {changed} of the 1024 poisoned ones on, in buffer #\d+",
                r"given to +fill<<<\(1,1,1\), \(256,1,1\)>>>", r"poisoned at +\S*pool\.cu:\d+ in \w+")) for kind, what, thread, changed in (
        ("past", "overrun inside a pool", "0,0,0 25[01],0,0", "8 bytes changed, from byte 1000"),
        ("late", "use after free inside a pool", "0,0,0 0,0,0", "4 bytes changed, from byte 0"))),
    *(Bug(f"slack {' '.join(kind)}", "slack.cu", kind, what, "store_at", "store_at", "write", 1, distance, bytes=1000, thread=r"0,0,0 1?\d,0,0", twin=("clean",),
          status=86, prints=("done",), right="done", says=(
              rf"cufence: slack WRITE: {changed} buffer #1\b", r"found +41 41 41", r"given to +store_at<<<\(1,1,1\), \(32,1,1\)>>>"))
      for kind, what, distance, changed in (
        (("before",), "underrun", -16, "16 bytes changed, 16 bytes before the start of"), (("before", "async"), "underrun", -16, "16 bytes changed, 16 bytes before the start of"),
        (("tail",), "overrun", 0, "3 bytes changed, 0 bytes past the end of"), (("tail", "async"), "overrun", 0, "3 bytes changed, 0 bytes past the end of"))),
    *(_cuda("slack", kind, what, kind, "write", width, distance, bytes=size, thread=thread, twin=("clean",), status=86, prints=("done",), right="done", says=(
            rf"cufence: slack WRITE: {changed} buffer #1\b", rf"given to +{kind}<<<", rf"as {_TYPES[width]}: {value}" if width > 1 else f"found +{value}"))
      for kind, what, width, distance, size, thread, changed, value in (
        ("one_byte", "overrun", 1, 0, 1003, "7,0,0 107,0,0", "1 byte changed, 0 bytes past the end of", "41"),
        ("two_bytes", "overrun", 2, 0, 1002, "3,0,0 117,0,0", "2 bytes changed, 0 bytes past the end of", "16706"),
        ("tail_of_8", "overrun", 8, 0, 1000, "0,0,0 125,0,0", "8 bytes changed, 0 bytes past the end of", r"2\.5"),
        ("head", "underrun", 4, -16, 1000, "0,0,0 [0-3],0,0", "16 bytes changed, 16 bytes before the start of", r"2\.5 2\.5 2\.5 2\.5"),
        ("count_down", "underrun", 4, -4, 1000, "0,0,0 0,0,0", "4 bytes changed, 4 bytes before the start of", r"2\.5"),
        ("four_before", "underrun", 4, -4, 1000, "0,0,0 0,0,0", "4 bytes changed, 4 bytes before the start of", r"2\.5"))),
    *(_cuda("tensor_map", kind, what, kernel, access, 0, None, bytes=65536, thread=r"\d+,0,0 0,0,0", mark=mark, twin=("good",), right="cudaSuccess", says=(
            head, rf"instruction +{instruction} \[UR", *([rf"argument 0 {map_[0]}, \[{map_[1]}, 64\] of 4 bytes in\s"] if map_ else [])))
      for kind, what, kernel, access, mark, head, instruction, map_ in (
        ("load", "tensor map too large", "read_tile", "read", "load", r"out-of-bounds READ of 256 bytes, \d+ bytes past the end", r"UTMALDG\.2D", _TILE),
        ("store", "tensor map too large", "write_tile", "write", "store", r"out-of-bounds WRITE of 256 bytes, \d+ bytes past the end", r"UTMASTG\.2D", _TILE),
        ("add", "tensor map too large", "write_tile", "atomic", "add", r"out-of-bounds ATOMIC of 256 bytes, \d+ bytes past the end", r"UTMAREDG\.2D", _TILE),
        ("freed", "tensor map of a freed buffer", "read_tile", "read", "load", r"use-after-free READ of 256 bytes", r"UTMALDG\.2D", ("is a tensor map", 256)),
        ("copied", "tensor map of a freed buffer", "read_copied", "read", "load", r"use-after-free READ of 256 bytes", r"UTMALDG\.2D",
         ("points to a copy of a tensor map", 256)),
        ("bulk", "overrun", "read_bulk", "read", "bulk", r"out-of-bounds READ of 4096 bytes, \d+ bytes past the end", r"UBLKCP\.S\.G", None))),
    *(_cuda("host_copies", kind, what, "", "", 0, None, bytes=size, call=call, twin=(twin,), prints=("done",), lacks=("buffer",), right="done",
            says=(said, r"in use by +cuMemcpy(HtoD|DtoH)Async"), **_STREAMS) for kind, what, size, call, twin, said in (
        ("again", "pinned buffer reused in flight", 4194304, r"cu(da)?Memcpy\w*Async", "event",
         "stream race by cuMemcpyHtoDAsync: finds a change in 4194304 bytes of pinned memory at 0x"),
        ("freed", "pinned buffer freed in flight", 32, r"cu(da|Mem)FreeHost", "waited", "stream race by cuMemFreeHost: frees 32 bytes of pinned memory at 0x"))),
    *(_cuda("exceptions", kind, kind, kernel, "", 0, None, thread=thread, mark=kind, **_UNUSED, says=says, prints=(error,)) for kind, kernel, thread, says, error in (
        ("trap", "trap", _ONE, ("exception: trap", "the kernel trapped by itself"), "cudaErrorLaunchFailure"),
        ("assert", "fails", _ONE, ("exception: assertion failed", "no buffer is involved"), "cudaErrorAssert"),
        ("illegal", "illegal", r"0,0,0 ([12]?\d|3[012]),0,0", ("exception: illegal instruction", "the mask of a __syncwarp"), "cudaErrorIllegalInstruction"))),
    _cuda("exceptions", "device_heap", "null pointer", "from_heap", "write", 4, None, thread=r"[01],0,0 \d+,0,0", twin=("device_heap", "fits"), right="cudaSuccess",
          says=(r"\A(?![\s\S]*wild.address)[\s\S]*(null-pointer WRITE|cannot have the device heap)",), lacks=("thread",)),
    _cuda("exceptions", "misaligned", "misaligned", "misaligned", "", 0, None, bytes=256, thread=_ONE, **_UNUSED, prints=("cudaErrorMisalignedAddress",),
          says=("misaligned WRITE of 4 bytes, not a multiple of 4, 65 bytes into buffer #1",)),
    Bug("double_free", "double_free.cu", (), "double free", bytes=4000, call=r"cu(da|Mem)Free\b|cuMemFree_v2|second free", **_UNUSED,
        says=(r"cufence: double free by cuMemFree", r"freed +\S.* ago by thread \d+"), prints=("second free: cudaErrorInvalidValue",)),
    Bug("leak", "leak.cu", (), "leak", bytes=1 << 20, own=("--set", "leaks=on"), sanitizer="leak-check", reason="leaks=on lists what was never freed", **_UNUSED,
        status=86, says=(r"cufence: leak of 3 buffers, 3 MiB in all", r"SUMMARY: cufence: leak"), prints=("done",)),
    *(_cuda("nan", kind, "NaN", kernel, "", 0, None, bytes=400000, mark="", **_UNUSED, **_NAN, prints=("done",), says=(
        rf"\A==\d+== cufence: first NaN: {kernel} writes 1 NaN to buffer #\d+, first to element 41700 of float32\[100000\]",
        r'"index": ?41700')) for kind, kernel in (("log", "log_of"), ("divide", "divide"))),
    _cuda("nan", "beside", "NaN", "log_of", "", 0, None, bytes=800000, mark="", twin=("beside", "fits"), right="done", **_NAN, prints=("done",), lacks=("kernel",),
          says=(r"first NaN: (scale_slowly|log_of), or (scale_slowly|log_of) on another stream, writes 1 NaN",)),
    *(_cuda("unwritten", kind, "uninitialised read", kernel, "read", 0, None, bytes=10000 * width, mark="", twin=(kind, "written"), says=tuple(says), **by)
      for kind, kernel, width, by, *says in (
        ("ints", "add_ints", 4, _UNINIT), ("flags", "choose", 1, _UNINIT), ("bytes", "add_bytes", 1, _UNINIT),
        ("floats", "accumulate", 4, _FRESH, r"first to element 9000 of float32\[10000\]"), ("doubles", "scale_doubles", 8, _UNINIT),
        ("halves", "scale_halves", 2, _FRESH, r"first to element 9000 of float16\[10000\]"), ("total", "sum", 4, _FRESH, r"first to element 0 of float32\[1\]"),
        ("maximum", "largest", 4, _UNINIT), ("pool", "add_ints", 4, _UNINIT), ("copied", "add_ints", 4, _UNINIT))),
    _python("triton_overrun", "overrun", "k_oob", "read", 4, 0, bytes=4000, thread=_LAST),
    _python("triton_store_only", "overrun", "k_store", "write", 4, 0, bytes=4000, thread=_LAST, ways=HOOKED,
            says=(r"WRITE of 4 bytes, 0 bytes past the end of buffer #\d+ \(re-run\)", r"address .*re-run", r"written +\d bytes? past the end")),
    _python("triton_store_half", "overrun", "k_store_half", "write", 2, 0, bytes=2000, thread=_PROGRAM, ways=HOOKED,
            says=(r"WRITE of 2 bytes, 0 bytes past the end of buffer #\d+ \(re-run\)", r"address .*re-run", r"written +\d bytes? past the end")),
    _python("triton_atomic", "overrun", "k_atomic", "atomic", 4, 0, bytes=4000, thread=_PROGRAM, says=(r"buffer +#\d+, 4000 bytes\b",)),
    _python("graph_overrun", "overrun", "k_oob", "read", 4, 0, bytes=4000, thread=_LAST, prints=("captured",)),
    _python("big_buffer", "overrun", "k_big", "read", 4, 0, bytes=3670016, thread=r"7168,0,0 \d+,0,0"),
    _python("fp16_odd", "overrun", "k_half", "read", 2, 0, bytes=2002, thread=_PROGRAM, own=("--set", "align=auto"), reason=_ROUNDED),
    _python("underrun", "underrun", "k_before", "read", 4, -4, bytes=4096, thread=r"0,0,0 \d+,0,0", own=("--set", "side=start"),
            reason="side=end has no guard in front of a buffer"),
    _python("use_after_free", "use after free", "k_late", "read", 4, None, bytes=4000, thread=_ANY_BLOCK, own=("--set", "uaf=strict"),
            says=(_FREED[0], r"freed +\S.* ago by thread \d+")),
    _python("late_in_a_loop", "use after free", "k_late", "read", 4, None, bytes=4000, thread=_ANY_BLOCK, says=(
        _FREED[0], r"allocated at +\S*late_in_a_loop\.py:{ALLOCATED}\b", r"freed at +\S*late_in_a_loop\.py:{FREED}\b",
        r"freed +\S.* ago by thread \d+ on stream 0x[0-9a-f]+,\s+(?:==\d+==\s+)?about \d+ allocations ago")),
    _python("freed_argument", "freed pointer in a launch", "k_late", "read", 4, None, bytes=4000, thread=_ANY_BLOCK, ways=HOOKED, prints=("nothing so far",),
            says=(_FREED[0], r"allocated at +\S*freed_argument\.py:{ALLOCATED}\b", r"freed at +\S*freed_argument\.py:{FREED}\b")),
    _python("freed_graph", "freed pointer in a graph", "k_scale", "read", 0, None, "freed", bytes=4000, thread=_ANY_BLOCK, twin=("kept",), case="freed_graph",
            ways=HOOKED, prints=("20 replays are right",), right="21 replays are right", says=(
                _FREED[0], r"freed_graph\.py:{CAPTURED}\b", r"allocated at +\S*freed_graph\.py:{ALLOCATED}\b", r"freed at +\S*freed_graph\.py:{FREED}\b")),
    *(_python("triton_cause", what, f"k_{kind}", access, width, None, kind, bytes=size, thread=thread, mark=kind.upper(), twin=twin, ways=HOOKED, says=("cause +", says))
      for kind, what, access, width, size, thread, twin, says in (
        ("pages", "wrong index from memory", "read", 4, 131072, r"2,5,0 \d+,0,0", ("pages", "7"),
         r"index 70 was loaded in triton_cause\.py:{OFPAGES} from buffer #\d+ .argument 2., element 21 of 32 "),
        ("experts", "wrong index from memory", "read", 4, 6400, r"40,0,0 \d+,0,0", ("experts", "4"),
         r"index 4104 was loaded in triton_cause\.py:{OFEXPERTS} from buffer #\d+ .argument 2., element 40 of 100 "),
        ("rows", "wrong index from memory", "read", 4, 25600, r"2,0,0 \d+,0,0", ("rows", "50"),
         r"index 5000 was loaded in triton_cause\.py:{OFROWS} from buffer #\d+ .argument 2., element 37 of 100 "),
        ("wrap", "32-bit wrap", "write", 1, 3 << 30, r"\d+,0,0 \d+,0,0", ("wrap", "2047"),
         r"\d+ \* 1048576 wrapped at 32 bits in triton_cause\.py:{WRAP}: -\d+ instead of \d+; 64-bit arithmetic"))),
    _python("compile_custom_op", "overrun", "k_oob", "read", 4, 0, "custom_op", bytes=4000, thread=_LAST, twin=(), twin_program="compile_default.py",
            case="compile_custom_op", ways=HOOKED),
    _python("cupy_overrun", "overrun", "k_oob", "read", 4, 0, bytes=4000, thread=_LAST, mark="", ways=RUN, says=(r"at +\S*\.cu:\d+",)),
    _python("jax_overrun", "overrun", "k_oob", "read", 4, 0, "nvcc", bytes=4096, thread="8,0,0 0,0,0", twin=(), twin_program="jax_clean.py", case="jax_overrun",
            ways=RUN, prints=("right without a surplus",)),
    _python("numba_overrun", "overrun", "k_oob", "read", 4, 0, "wrong", bytes=4000, thread=_LAST, twin=("right",), case="numba_overrun", ways=RUN),
    _python("aoti_overrun", "overrun", "k_double", "read", 4, 0, "1000", bytes=4000, thread=r"0,0,0 \d+,0,0", mark="", twin=("1024",)),
    _python("pool_overrun", "overrun inside a pool", "k_past", "read", 4, 0, "cupy", "wrong", bytes=4096, thread="8,0,0 0,0,0", mark="", twin=("cupy", "right"),
            case="cupy_pool_overrun", ways=RUN),
    _python("streams_race", "missing record_stream", "", "", 0, None, "race", bytes=4004, call="PyTorch's allocator|cuMemFreeAsync", twin=("record",), **_STREAMS,
            case="streams_race", ways=HOOKED, prints=("20 sums",), says=(
                r"stream race by (cuMemFreeAsync|PyTorch's allocator): frees buffer #\d+ on stream 0x[0-9a-f]+, which .* may still use",
                r"called at +\S*streams_race\.py:{FAULT}\b", r"in use by +\S+.*derived", r"from +\S*(streams_race|_tensor|functional)\.py:\d+",
                r"hint +call tensor\.record_stream")),
    _python("host_copies", "pinned buffer reused in flight", "", "", 0, None, "staging", bytes=4194304, call=r"cu(da)?Memcpy\w*Async", mark="STAGING", twin=("right",),
            **_STREAMS, ways=HOOKED, prints=("4 sums",), lacks=("buffer",), right="4 sums", says=(
                r"stream race by cuMemcpyHtoDAsync: finds a change in 4194304 bytes of pinned memory", r"in use by +cuMemcpy(HtoD|DtoH)Async +derived")),
    _python("triton_tensor_map", "tensor map too large", "copy_rows", "read", 0, None, "large", bytes=65536, thread=r"\d+,0,0 \d+,0,0", twin=("right",), ways=HOOKED,
            right="equal", says=(r"instruction +UTMALDG\.2D \[UR", r"argument 0 is a tensor map, \[512, 64\] of 4 bytes in buffer #\d+, 65536 bytes\s")),
    *(_python("nan_eager", "NaN", "", "", 0, None, kind, bytes=256000, mark=f"NAN {kind}", twin=(), twin_program="nan_clean.py", **_NAN, ways=HOOKED,
              prints=("sum is NaN: True",), says=(
                  r"\A==\d+== cufence: first NaN: \S*elementwise\S* writes \d+ NaN to buffer #\d+", rf"launched at\s+\S*nan_eager\.py:{{NAN {kind}}}\b",
                  "element 3417 of float32")) for kind in ("log", "divide")),
]  # fmt: skip
