"""Keeps what a tool has said, and judges it against the manifest: one rule for every tool.

A cell keeps what was said, short (`findings` of cufence, `reports` of compute-sanitizer, `lines` of the program), not a verdict: so a
better judge needs no GPU. Of each, records are made with the same members, and a record is at the bug if its kind is one of those that
the bug's kind can have and it names the kernel, the line, the buffer or the call of the manifest; "named" is what it names as the
manifest does. A CUDA error is a record, too: it names what stands beside it (the assertion, or the line of a traceback).
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
NOT_FINDINGS = ("run", "guarded", "use", "mode", "summary")
MOST = 3  # records kept of a run
ROUNDED = 512  # PyTorch and the driver round sizes up to this; a buffer named with such a size is the right one
ACCESS = ("access",)
CLASSES = {  # of a bug's kind: classes of what may be said about it; any other kind is an access to memory
    "misaligned": ("misaligned",), "trap": ("exception",), "assert": ("exception",), "illegal": ("exception",), "barrier": ("barrier", "exception"),
    "double free": ("free", "value"), "leak": ("leak",), "NaN": ("NaN",), "uninitialised read": ("uninitialised", "NaN"), "race in shared memory": ("race",),
    "missing record_stream": ("streams",), "pinned buffer reused in flight": ("streams",), "pinned buffer freed in flight": ("streams",),
    "misaligned, wild address": ("misaligned", "access"), "overrun inside a pool": ("region", "access"),
    "pool memory freed in flight": ("streams", "access"), "use after free inside a pool": ("region", "access"),
}  # fmt: skip
OURS = {  # kinds of cufence's findings
    "misaligned access": "misaligned", "exception": "exception", "double free": "free", "invalid free": "free", "leak": "leak", "first NaN": "NaN",
    "first Inf": "NaN", "stream race": "streams", "write to poisoned memory": "region", "unexplained": "",
}  # fmt: skip
THEIRS = (  # heads of compute-sanitizer's reports
    (r"Invalid (?:__\w+__|tensor) (?:read|write|atomic|load|store)", "access"), (r"Uninitialized __", "uninitialised"), (r".*Race reported|.*[Hh]azard", "race"),
    (r"Barrier error", "barrier"), (r"Leaked ", "leak"), (r"Malloc/Free error|.*[Dd]ouble free|.*Invalid (?:pointer|free)", "free"),
    (r".*(?:[Ii]llegal instruction|[Aa]ssert|[Tt]rap\b|Stack overflow)", "exception"), (r".*[Mm]isaligned", "misaligned"),
)  # fmt: skip
HEAD = re.compile(r"(?!COMPUTE-SANITIZER|ERROR SUMMARY|\w+ SUMMARY|Target application|No attachable|Error: (?:process|Target)|Internal|Warning: (?!Race))\S")
ERRORS = (
    (r"illegal memory access|cudaErrorIllegalAddress|[Ee]rror 700\b", "access"), (r"misaligned address|cudaErrorMisalignedAddress|[Ee]rror 716\b", "misaligned"),
    (r"illegal instruction|device-side assert|unspecified launch failure|cudaError(?:LaunchFailure|Assert|IllegalInstruction)\b|[Ee]rror 7(?:10|15|19)\b",
     "exception"), (r"\bcudaErrorInvalidValue", "value"), (r"[Ee]rror 7\d\d", ""),
)  # fmt: skip
ASSERTION = re.compile(r"([^\s:]+):(\d+): (.*): block: \[(\d+,\d+,\d+)\], thread: \[(\d+,\d+,\d+)\] Assertion")


@dataclass(frozen=True)
class Facts:
    """What a report has to name: a row of the manifest."""

    kind: str
    kernel: str = ""
    file: str = ""  # of the line
    line: int | None = None  # of the bad access; without a kernel, of the call on the host
    access: str = ""
    bytes: int = 0  # size of the buffer
    width: int = 0
    distance: int | None = None
    thread: str = ""  # a pattern of block and thread, as "7,0,0 104,0,0"
    call: str = ""  # a pattern of the call on the host
    program: str = ""  # the source whose frames a stack must have

    @property
    def asked(self) -> set[str]:
        """Of WHERE, what the manifest has."""
        has = {"kernel": self.kernel, "line": self.line, "thread": self.thread, "buffer": self.bytes, "call": self.call}
        return {name for name, value in has.items() if value}


# ---- what is kept ----


def json_of(text: str) -> Any:
    """None if it is not a whole object: a program that is ended while it writes leaves half a line."""
    with contextlib.suppress(json.JSONDecodeError):
        return json.loads(text) if text.startswith("{") else None
    return None


def findings_of(written: str) -> list[Cell]:
    """Of the lines that --json has written; `cufence hunt` writes one object, with the line of a run in each finding."""
    whole = json_of(written)
    lines = [one["report"] for one in whole["findings"]] if whole and "findings" in whole else filter(None, map(json_of, written.splitlines()))
    return [one for one in lines if one.get("kind", "run") not in NOT_FINDINGS]


def kept_of_finding(found: Cell) -> Cell:
    """A finding of cufence in few members."""
    kernel, buffer, access = (found.get(part) or {} for part in ("kernel", "buffer", "access"))
    made = found.get("nan") or {}
    slack = found.get("slack") or {}
    given = [one.get("symbol", "") for one in slack.get("launches", {}).get("list", [])]
    place = made.get("written_at") or kernel
    frames = [one for part in (found.get("called"), found.get("launch"), made, buffer.get("allocated")) if part for one in part.get("frames", [])[:6]]
    distance, thread = buffer.get("distance"), found.get("thread")
    kept = {
        "kind": found.get("kind"), "access": access.get("kind"), "call": found.get("call"), "text": (found.get("reason") or "")[:160],
        "kernel": kernel.get("name") or made.get("kernel") or (given[0] if given and len(set(given)) == 1 else None),
        "file": Path(place.get("file") or "").name, "line": place.get("line"),
        "thread": thread and " ".join(",".join(map(str, thread[part])) for part in ("block", "thread")), "bytes": buffer.get("size"),
        "row": slack.get("poisoned", {}).get("bytes"), "distance": distance and [distance["bytes"], distance["from"]],
        "frames": [f"{one.get('function', '')} {Path(one.get('file') or one.get('module') or '').name}:{one.get('line', '')}" for one in frames],
    }  # fmt: skip
    return {name: value for name, value in kept.items() if value not in (None, "", [])}


def kept_of_sanitizer(said: str) -> list[str]:
    """The first reports of compute-sanitizer, without frames of libraries."""
    reports: list[list[str]] = []
    for line in said.splitlines():
        text = re.match(r"=========(?: (.*))?$", line)
        if text and text[1] and HEAD.match(text[1]):
            reports.append([text[1]])
        elif text and text[1] and reports and text[1].startswith("  "):
            if "Host Frame" not in text[1] or re.search(r" in \S+\.(?:cu|cpp|py):\d|: *main\b", text[1]):
                reports[-1].append(text[1].strip()[:240])
    return ["\n".join(report[:9]) for report in reports[:MOST]]


def kept_lines(said: str, stem: str) -> list[str]:
    """Lines of the program's output with an error of CUDA, and of a traceback those of the program."""
    said = said.replace(f"{ROOT}/", "")  # results name no folder of the machine
    lines, kept = [line for line in said.splitlines() if not line.startswith(("==", "cufence:"))], []
    for number, line in enumerate(lines):
        if ASSERTION.search(line) or any(re.search(pattern, line) for pattern, _ in ERRORS):
            kept.append(line.strip()[-200:])
        elif re.search(rf'File "[^"]*{re.escape(stem)}", line \d+', line):
            kept.append(f"{line.strip()} | {lines[number + 1].strip() if number + 1 < len(lines) else ''}"[-240:])
    return list(dict.fromkeys(kept))[-2 * MOST :]


# ---- records ----


def record_of_sanitizer(report: str) -> Cell:
    head, _, rest = report.partition("\n")
    kind = next((kind for pattern, kind in THEIRS if re.match(pattern, head)), "")
    kind = "misaligned" if "is misaligned" in rest and kind == "access" else kind
    places = re.findall(r"(?:^at|access at|^Device Frame:) ?(\S.*?)\+0x[0-9a-f]+(?: in (\S+?):(\d+))?", report, re.M)
    thread = re.search(r"by thread \((\d+,\d+,\d+)\) in block \((\d+,\d+,\d+)\)", rest)
    near = re.search(r"(?:([\d,]+) bytes (after|before)|inside) the nearest allocation at \w+ of size ([\d,]+) bytes", rest)
    leaked = re.match(r"Leaked ([\d,]+) bytes", head)
    size = near[3] if near else leaked[1] if leaked else ""
    record: Cell = {"class": kind, "access": next((word for word in ("read", "write", "atomic") if f" {word} " in head), "")}
    record["call"] = (re.search(r"on CUDA API call to (\w+)", head) or ["", ""])[1]
    if record["call"]:
        record["class"] = next((kind for pattern, kind in ERRORS if re.search(pattern, head)), "value" if "invalid argument" in head else "")
    record["places"] = [(kernel, Path(file).name, int(line) if line else None) for kernel, file, line in places]
    record |= {"thread": f"{thread[2]} {thread[1]}" if thread else "", "bytes": int(size.replace(",", "")) if size else 0}
    if near and near[1]:  # their first byte behind the end is 1 after it
        far = int(near[1].replace(",", ""))
        record["distance"] = far - 1 if near[2] == "after" else -far
    return {**record, "frames": re.findall(r"Host Frame: ?(.*)", rest)}


def record_of_finding(kept: Cell) -> Cell:
    record = {**kept, "class": OURS.get(kept["kind"], "access"), "places": [(kept.get("kernel", ""), kept.get("file", ""), kept.get("line"))]}
    if "distance" in kept:
        far, side = kept["distance"]
        record["distance"] = {"past the end": far, "before the start": -far}.get(side)
    return record


def record_of_lines(lines: list[str]) -> list[Cell]:
    """One, of all errors: the assertion and the last line of the traceback say where."""
    classes = [kind for line in lines for pattern, kind in ERRORS if re.search(pattern, line)]
    if not classes and not any(ASSERTION.search(line) for line in lines):
        return []
    record: Cell = {"class": next(filter(None, classes), "exception"), "call": " ".join(lines), "places": []}
    for line in lines:
        said, trace = ASSERTION.search(line), re.search(r'File "([^"]*)", line (\d+).* \| (.*)', line)
        if said:
            record |= {"class": "exception", "places": [(said[3], Path(said[1]).name, int(said[2]))], "thread": f"{said[4]} {said[5]}"}
        elif trace:  # the launch
            record["places"] = [((re.match(r"(?:\w+ = )?(\w+)[\[(]", trace[3]) or ["", ""])[1], Path(trace[1]).name, int(trace[2]))]
    return [record]


def records(said: Cell) -> list[Cell]:
    return [*map(record_of_finding, said.get("findings", [])), *map(record_of_sanitizer, said.get("reports", [])), *record_of_lines(said.get("lines", []))]


# ---- the verdict ----


def bare(kernel: str) -> str:
    """void ns::name<int>(float *) -> name"""
    words = re.split(r"[<(\[]", kernel)[0].split("::")[-1].split()
    return words[-1] if words else ""


def is_kernel(named: str, facts: Facts) -> bool:
    """Inductor adds a number to the names of kernels; not every tool reads numba's mangled ones."""
    name = bare(named)
    is_numbered = facts.program.endswith(".py") and bool(re.fullmatch(rf"{facts.kernel}_\d+", name))
    is_mangled = named.startswith("_Z") and bool(re.search(rf"\D{len(facts.kernel)}{facts.kernel}", named))
    return bool(facts.kernel) and (name == facts.kernel or is_numbered or is_mangled)


def rightly_named(record: Cell, facts: Facts) -> set[str]:
    """What a record names as the manifest does."""
    right = set()
    frames = record.get("frames", [])
    if any(is_kernel(kernel, facts) for kernel, _, _ in record["places"]):
        right.add("kernel")
    on_host = not facts.kernel and any(re.search(rf"\b{re.escape(facts.file)}:{facts.line}\b", frame) for frame in frames)
    if facts.line and (on_host or any((file, line) == (facts.file, facts.line) for _, file, line in record["places"])):
        right.add("line")
    if facts.thread and re.fullmatch(facts.thread, record.get("thread") or ""):
        right.add("thread")
    sizes = (record.get("bytes") or 0, record.get("row") or 0)
    if facts.bytes and any(facts.bytes <= size <= -(-facts.bytes // ROUNDED) * ROUNDED for size in sizes):
        right.add("buffer")
    distance, wanted = record.get("distance"), facts.distance
    if "buffer" in right and distance is not None and wanted is not None and (distance < 0) == (wanted < 0):
        # The manifest has the first bad byte; a tool may name that of another thread.
        right |= {"distance"} if abs(distance) >= abs(wanted) and (distance - wanted) % (facts.width or 1) == 0 else set()
    if facts.call and re.search(facts.call, record.get("call") or ""):
        right.add("call")
    if any(facts.program and Path(facts.program).stem in frame for frame in frames):
        right.add("stacks")
    return right


def judge(facts: Facts, cell: Cell) -> tuple[str, set[str]]:
    """The cell's word, and what is named rightly by the record that names most of it."""
    said = records(cell.get("said", {}))
    if not said:
        return "slow" if cell.get("slow") else "silent" if cell.get("status") == 0 else "crashed", set()
    at_bug = []
    for record in said:
        fits = record["class"] in CLASSES.get(facts.kind, ACCESS) and not (facts.access and record.get("access") and record["access"] != facts.access)
        right = rightly_named(record, facts) if fits else set()
        if right & {"kernel", "line", "buffer", "call"}:
            at_bug.append(right)
    return ("found", max(at_bug, key=len)) if at_bug else ("elsewhere", set())
