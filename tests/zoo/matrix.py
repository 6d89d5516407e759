"""Runs the zoo under every tool and says what each has found: `./dev matrix`. Needs a GPU, and the programs of `./dev build`.

    ./dev matrix                              everything, into build/matrix.json; the same command goes on where it stopped
    ./dev matrix --json F --jobs 8            with so many programs at a time
    ./dev matrix --only "rerun store_4" --only memcheck     this bug, under this tool
    ./dev matrix --corpus samples=FOLDER      besides, a corpus of others: corpora.json says how its programs are built and run
    python3 tests/zoo/page.py F               docs/detection.md, from a result

A cell is one bug under one tool: found, elsewhere (another kernel or line is named), silent, crashed (an error, and nothing said about the
bug) or slow (no end within the time, nor alone), and what it has named. Twins are correct: there "found" is a false alarm.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CORPORA = HERE / "corpora.json"
sys.path.insert(0, str(HERE.parents[1] / "bench"))
from bench import facts_here  # noqa: E402
from tools import BUILD, TOOLS  # noqa: E402
from zoo import ROOMY, STORIES, Bug  # noqa: E402
from zoo import BUGS as ZOO  # noqa: E402

SECONDS, PYTHON_SECONDS = 30, 60
COLUMNS = ("native", "blocking", "dumps", "memcheck", "padding", "memcheck_uncached", "own_tool", "run", "strict", "own")
OURS = ("run", "strict", "own")
FIRST = ("run", "memcheck", "own", "own_tool", "memcheck_uncached", "strict", "native", "dumps", "blocking", "padding")  # in this order
FOR_PYTHON = ("blocking", "padding", "memcheck_uncached")  # they change PyTorch's allocator, or only matter beside it
TWINS = ("memcheck", "own_tool", "run", "strict", "own")
NOT_FINDINGS = ("run", "guarded", "use", "estimate", "mode", "summary")
SANITIZER_FOUND = re.compile(r"^=+\s+(Invalid __|Uninitialized __|Error: Race|Warning: Race|Race reported|Barrier error|Address |Fatal UVM|Stack overflow"
                             r"|Illegal instruction|Malloc/Free error|Leaked|.*[Mm]isaligned|.*double free|.*Double free)", re.M)  # fmt: skip
ERROR = re.compile(r"illegal memory access|unspecified launch failure|misaligned address|illegal instruction|device-side assert|[Ee]rror 7\d\d"
                   r"|cudaError(IllegalAddress|LaunchFailure|Assert|IllegalInstruction|MisalignedAddress|InvalidValue)")  # fmt: skip
Cell = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """A command, and the facts that a tool should name."""

    command: tuple[str, ...]
    kernel: str = ""
    line: int | None = None
    own: tuple[str, ...] = ()
    sanitizer: str = "memcheck"
    is_python: bool = False


def of_bug(bug: Bug, is_twin: bool) -> Program:
    arguments = [shutil.which("nvcc") or "nvcc" if word == "nvcc" else word for word in bug.arguments]
    if is_twin:
        arguments = [*arguments, *ROOMY] if bug.is_python and bug.twin == ROOMY else list(bug.twin or ())
    name = (is_twin and bug.twin_program) or bug.program
    if name.endswith(".cu"):
        command = [str(BUILD / "bin" / "programs" / name.replace(".cu", ".static")), *arguments]
    elif is_twin and bug.twin == ROOMY:
        command = [sys.executable, str(HERE / "roomy.py"), str(STORIES / name), *arguments[:-1]]
    else:
        command = [sys.executable, str(STORIES / name), *arguments]
    return Program(tuple(command), bug.kernel, bug.line(), bug.own, bug.sanitizer, bug.is_python)


def command_of(program: Program, tool: str, found: Path) -> list[str]:
    if tool in OURS:
        own = {"run": ("run",), "strict": ("run", "--set", "uaf=strict"), "own": program.own if program.own[:1] == ("hunt",) else ("run", *program.own)}[tool]
        return [str(BUILD / "bin" / "cufence"), *own, "--json", str(found), "--", *program.command]
    if tool == "own_tool":
        return ["compute-sanitizer", "--tool", program.sanitizer, *program.command]
    return TOOLS[tool].command(*program.command)


def names_of_report(found: Cell) -> tuple[set[str], str, int | None]:
    """What a finding of cufence names; its kernel and line."""
    kernel, buffer, launch = (found.get(part) or {} for part in ("kernel", "buffer", "launch"))
    frames = launch.get("frames") or [one for given in found.get("given_to", []) for one in given.get("frames", [])]
    named = {
        "kernel": kernel.get("name"), "line": kernel.get("line"), "thread": found.get("thread"), "buffer": buffer.get("id"),
        "distance": buffer.get("distance"), "stacks": frames or (buffer.get("allocated") or {}).get("frames"),
    }  # fmt: skip
    return {name for name, value in named.items() if value}, kernel.get("name") or "", kernel.get("line")


def names_of_sanitizer(said: str) -> tuple[set[str], str, int | None]:
    place = re.search(r"at (?:void )?([\w:]+)[(<].*\+0x[0-9a-f]+(?: in (\S+):(\d+))?", said)
    named = {
        "kernel": place, "line": place and place[3], "thread": re.search(r"by thread \(\d", said),
        "buffer": re.search(r"nearest allocation|Leaked [\d,]+ bytes", said), "distance": re.search(r"bytes (after|before) the nearest", said),
        "stacks": re.search(r"Host Frame: (main|\w+ in \S+\.(cu|py|cpp))", said),
    }  # fmt: skip
    return {name for name, value in named.items() if value}, place[1] if place else "", int(place[3]) if place and place[3] else None


def names_of_dump(folder: Path) -> tuple[set[str], str, int | None]:
    """As `cufence explain` reads it; cuda-gdb says the same."""
    for dump in sorted(folder.glob("*.core")):
        done = subprocess.run([BUILD / "bin" / "cufence", "explain", "--json", dump], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            named, kernel, number = names_of_report(json.loads(line)) if line.startswith("{") else (set(), "", None)
            if named:
                return named & {"kernel", "line", "thread"}, kernel, number
    return set(), "", None


def verdict(program: Program, tool: str, status: int, said: str, folder: Path) -> Cell:
    named: set[str] = set()
    kernel, line, is_found = "", None, False
    if tool in OURS:
        file = folder / "found.json"
        findings = [json.loads(one) for one in file.read_text().splitlines() if one.startswith("{")] if file.exists() else []
        findings = [one for one in findings if one.get("kind") not in NOT_FINDINGS]
        is_found = bool(findings)
        for one in findings[:1]:
            named, kernel, line = names_of_report(one)
    elif tool in ("memcheck", "padding", "memcheck_uncached", "own_tool"):
        first = SANITIZER_FOUND.search(said)
        is_found = bool(first) or bool(ERROR.search(said))
        if first:
            named, kernel, line = names_of_sanitizer(said[first.start() :][:3000])
    else:
        is_found = bool(ERROR.search(said))
        if tool == "dumps":
            named, kernel, line = names_of_dump(folder)
    is_other = (program.kernel and kernel and program.kernel not in kernel) or (program.line and line and line != program.line)
    word = ("elsewhere" if is_other else "found") if is_found else "silent" if status == 0 else "crashed"
    return {"word": word, "named": sorted(named), "status": status} | ({"said": said[-400:]} if word == "crashed" else {})


def run_cell(program: Program, tool: str) -> Cell:
    """Each has a folder of its own; caches of compiled kernels are shared, so that they are not compiled under each tool."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cufence-zoo-") as name:
        folder = Path(name)
        shutil.copy(STORIES / "jax_kernel.cu", folder)
        variables = TOOLS["run" if tool in OURS else "native" if tool == "own_tool" else tool].variables(
            TRITON_CACHE_DIR="/tmp/cufence-zoo-triton", XLA_PYTHON_CLIENT_PREALLOCATE="false")  # fmt: skip
        if tool == "dumps":
            variables["CUDA_COREDUMP_FILE"] = str(folder / "%p.core")
        try:
            process = subprocess.Popen(command_of(program, tool, folder / "found.json"), cwd=folder, env=variables, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)  # fmt: skip
            said, _ = process.communicate(timeout=PYTHON_SECONDS if program.is_python else SECONDS)
            cell = verdict(program, tool, process.returncode, said, folder)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            cell = {"word": "slow", "named": []}
        except OSError as error:
            cell = {"word": "crashed", "named": [], "said": str(error)}
    return cell | {"seconds": round(time.monotonic() - began, 1)}


def tools_for(program: Program, is_twin: bool) -> list[str]:
    left_out = {tool for tool in FOR_PYTHON if not program.is_python}
    left_out |= {"own_tool"} if program.sanitizer == "memcheck" else set()
    left_out |= {"own"} if not program.own else set()
    left_out |= {"strict"} if program.own[:1] == ("hunt",) else set()
    return [tool for tool in (TWINS if is_twin else COLUMNS) if tool not in left_out]


def corpus(name: str, folder: Path) -> list[tuple[str, bool, Program]]:
    """The programs of others, which are built here: nothing of them is in this tree."""
    programs = []
    for row in json.loads(CORPORA.read_text())[name]["programs"]:
        out = Path(tempfile.gettempdir()) / "cufence-corpora" / name / row["name"].replace(" ", "_")
        out.parent.mkdir(parents=True, exist_ok=True)
        build = [word.format(out=out) for word in row["build"]]
        done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False) if not out.exists() else None
        if done and done.returncode:
            print(f"{row['name']} is not built: {done.stderr[-300:]}", file=sys.stderr)
            continue
        program = Program((str(out), *row.get("arguments", [])), row.get("kernel", ""), row.get("line"), tuple(row.get("own", ())), row["sanitizer"])
        programs.append((f"{name}: {row['name']}", not row["kind"], program))
    return programs


def todo(options: argparse.Namespace, data: dict[str, Any]) -> list[tuple[str, str, str, Program]]:
    """(part, bug, tool, program) of what is not there yet."""
    rows = [(bug.name, False, of_bug(bug, False)) for bug in ZOO] + [(bug.name, True, of_bug(bug, True)) for bug in ZOO if bug.twin is not None]
    for given in options.corpus:
        name, _, folder = given.partition("=")
        rows += corpus(name, Path(folder).resolve())
    tools = [name for name in COLUMNS if name in options.only] or COLUMNS
    bugs = {name for name in options.only if name not in COLUMNS}
    wanted = []
    for name, is_twin, program in rows:
        part = "twins" if is_twin else "bugs"
        wanted += [(part, name, tool, program) for tool in tools_for(program, is_twin)
                   if tool in tools and (not bugs or name in bugs) and tool not in data[part].get(name, {})]  # fmt: skip
    return sorted(wanted, key=lambda one: FIRST.index(one[2]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev matrix", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=BUILD / "matrix.json", metavar="F", help="the results; goes on with those that are there")
    parser.add_argument("--jobs", type=int, default=6, metavar="N", help="programs at a time (6)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this bug or tool; may be repeated")
    parser.add_argument("--corpus", action="append", default=[], metavar="NAME=FOLDER", help="of corpora.json, as fetched by you")
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS", help="begin nothing after so long")
    options = parser.parse_args()
    known = {*COLUMNS, *(bug.name for bug in ZOO)}
    for name in options.only:
        if name not in known:
            parser.error(f"--only {name}: there is no such bug or tool; bugs: {', '.join(bug.name for bug in ZOO)}; tools: {', '.join(COLUMNS)}")
    facts = facts_here()
    if not facts:
        print("matrix: no GPU here (nvidia-smi names none)", file=sys.stderr)
        return 2
    data: dict[str, Any] = {"facts": facts, "bugs": {}, "twins": {}}
    if options.json.is_file():
        data = json.loads(options.json.read_text())
    until, cells = time.monotonic() + options.limit, todo(options, data)

    def save() -> None:
        fresh = options.json.with_name(f"{options.json.name}.{threading.get_ident()}")
        fresh.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
        fresh.replace(options.json)

    def take(one: tuple[str, str, str, Program]) -> None:
        if time.monotonic() > until:
            return
        part, name, tool, program = one
        cell = run_cell(program, tool)
        data[part].setdefault(name, {})[tool] = cell
        save()
        print(f"{cell['seconds']:5.1f} s  {part:5} {name:26} {tool:18} {cell['word']:9} {' '.join(cell['named'])}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(take, cells))
    for one in cells:  # the driver may have lost a fault among several
        if data[one[0]].get(one[1], {}).get(one[2], {}).get("word") == "slow":
            take(one)
    alarms = [f"{name}: {tool}" for name, row in data["twins"].items() for tool, cell in row.items() if tool in OURS and cell["word"] != "silent"]
    print(*(f"TWIN {alarm}" for alarm in alarms), sep="\n")
    return int(bool(alarms))


if __name__ == "__main__":
    sys.exit(main())
