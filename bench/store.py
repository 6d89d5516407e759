"""The results of `./dev bench`: one JSON file, written after every round, and resumed from.

facts       GPU, driver, versions, processors, date of the first sample
tools       titles
allocators  TOOL: PyTorch's allocator in its process
workloads   NAME: group, title, rounds (a list of {TOOL: [seconds a step of each block]}), failed ({TOOL: why}), left_out (why)
memory      MODEL: {TOOL: {"device": bytes, "reserved": bytes as PyTorch says, "used": bytes of tensors, "host": bytes}}
found       BUG: {TOOL: "found", "silent" or what went wrong}
coverage    after each training step: [places of allocation tested for use after free, places that have freed]
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from rounds import is_noise, summary
from tools import BASELINE, OURS, TOOLS

FORMAT = 1
SAME = ("gpu", "driver", "torch", "cufence")  # facts that a file's have to share with the machine's for it to be resumed


class Store:
    def __init__(self, path: Path | None, facts: dict[str, Any]) -> None:
        self.path = path
        self.data: dict[str, Any] = {
            "format": FORMAT,
            "facts": facts,
            "tools": {},
            "allocators": {},
            "workloads": {},
            "memory": {},
            "found": {},
            "coverage": [],
        }
        if path and path.is_file() and path.stat().st_size:
            self._resume(json.loads(path.read_text()), facts)
        self.data["tools"].update({name: tool.title for name, tool in TOOLS.items()})

    def _resume(self, data: dict[str, Any], facts: dict[str, Any]) -> None:
        if data.get("format") != FORMAT:
            raise ValueError(f"{self.path} is no file of this bench: name another one")
        other = [f"{name} {data['facts'].get(name)}, here {facts.get(name)}" for name in SAME if data["facts"].get(name) != facts.get(name)]
        if other:
            raise ValueError(f"{self.path} has the figures of another machine or build ({'; '.join(other)}): name another file")
        self.data = data
        for row in data["workloads"].values():  # another try; what failed in a row that is tried again is forgotten there
            row["left_out"] = None

    def row(self, name: str, group: str = "", title: str = "") -> dict[str, Any]:
        empty = {"group": group, "title": title, "rounds": [], "failed": {}, "left_out": None}
        return self.data["workloads"].setdefault(name, empty)

    def save(self) -> None:
        if not self.path:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.write_text(text_of(self.data))
        os.replace(fresh, self.path)

    def our_failures(self) -> list[str]:
        """What failed natively or under cufence: a peer may be unable to run a workload."""
        return [f"{name}, {TOOLS[tool].title}: {why}" for name, row in self.data["workloads"].items()
                for tool, why in row["failed"].items() if tool in (BASELINE, *OURS)]  # fmt: skip


def text_of(data: dict[str, Any]) -> str:
    """JSON with a line for each list of numbers."""
    return re.sub(r"\[\s+([-\d.e,\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", json.dumps(data, indent=1)) + "\n"


def digest(data: dict[str, Any]) -> str:
    """Of results. A picture has it, so that docs/figures.py sees whether it is of the committed ones."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]


def time_of(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def lines_of(name: str, row: dict[str, Any]) -> list[str]:
    """A workload as lines for the terminal."""
    lines = [f"{name}: {row['title']}" + (f": left out: {row['left_out']}" if row["left_out"] else "")]
    for tool in TOOLS:
        found = summary(row["rounds"], tool, BASELINE)
        if found and found["ratio"] == found["ratio"]:
            lines.append(f"  {TOOLS[tool].title:42} {time_of(found['seconds']):>9}   {found['ratio']:6.2f}  "
                         f"({found['lower']:.2f} to {found['upper']:.2f}, {found['rounds']} rounds{', noise' * is_noise(found)})")  # fmt: skip
        elif found:
            lines.append(f"  {TOOLS[tool].title:42} {time_of(found['seconds']):>9}")
        elif tool in row["failed"]:
            lines.append(f"  {TOOLS[tool].title:42} {row['failed'][tool][:90]}")
    return lines


def report(data: dict[str, Any]) -> str:
    lines = [", ".join(f"{name} {value}" for name, value in data["facts"].items())]
    for name, row in data["workloads"].items():
        lines += ["", *lines_of(name, row)]
    for model, taken in data["memory"].items():
        native = taken.get(BASELINE, {}).get("reserved")
        lines += ["", f"memory: {model}, MiB of the device and of the host; reserved, MiB and native = 1"]
        for tool, one in taken.items():
            ratio = f"{one['reserved'] / native:9.2f}" if native and "reserved" in one else ""
            lines.append(f"  {TOOLS[tool].title:42} {one['device'] >> 20:9} {one['host'] >> 20:9} {one.get('reserved', 0) >> 20:9}{ratio}")
    for bug, by_tool in data["found"].items():
        lines += ["", f"bug: {bug}", *(f"  {TOOLS[tool].title:42} {word}" for tool, word in by_tool.items())]
    lines += ["", "PyTorch's allocator: " + ", ".join(f"{TOOLS[tool].title}: {name}" for tool, name in data["allocators"].items())]
    if data["coverage"]:
        tested, places = data["coverage"][-1]
        lines += ["", f"use after free: {tested} of {places} places of allocation tested after {len(data['coverage'])} training steps"]
    return "\n".join(lines) + "\n"
