"""Runs the zoo under every tool and says what each has found: `./dev matrix`. Needs a GPU, and the programs of `./dev build`.

    ./dev matrix                              everything, into build/matrix.json; the same command goes on where it stopped
    ./dev matrix --json F --jobs 8            with so many programs at a time
    ./dev matrix --only "rerun store_4" --only memcheck     this bug, under this tool
    ./dev matrix --corpus samples=FOLDER      besides, a corpus of others: corpora.json says how its programs are built and run
    PATH=FOLDER:$PATH ./dev matrix            compute-sanitizer is the first of PATH; its version is recorded
    python3 tests/zoo/page.py --add F         F's cells into the committed result, and docs/detection.md from it

A cell is one bug under one tool, and keeps what was said, short: judge.py says of it found, elsewhere, silent, crashed or slow. Twins are
correct: there whatever is said is a false alarm. A cell without an end in time is run again, alone at last. Each remembers its machine.
Left out: a Python program whose twin fails natively, as where its library does not load; a program that compute-sanitizer does not start.
"""

from __future__ import annotations

import argparse
import functools
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
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CORPORA = HERE / "corpora.json"
sys.path.insert(0, str(HERE.parents[1] / "bench"))
from bench import facts_here  # noqa: E402
from judge import MOST, Facts, findings_of, judge, kept_lines, kept_of_finding, kept_of_sanitizer  # noqa: E402
from tools import BUILD, TOOLS  # noqa: E402
from zoo import ROOMY, STORIES, Bug  # noqa: E402
from zoo import BUGS as ZOO  # noqa: E402

SECONDS, PYTHON_SECONDS = 30, 60
PRINTED = 4 << 20  # bytes that are looked at, at each end
COLUMNS = ("native", "blocking", "dumps", "memcheck", "padding", "memcheck_uncached", "own_tool", "run", "strict", "own")
OURS = ("run", "strict", "own")
FIRST = ("run", "native", "dumps", "own", "memcheck", "memcheck_uncached", "own_tool", "strict", "blocking", "padding")  # in this order
FOR_PYTHON = ("blocking", "padding", "memcheck_uncached")  # they change PyTorch's allocator, or only matter beside it
TWINS = ("memcheck", "own_tool", "run", "strict", "own")
Cell = dict[str, Any]
NO_BUG = Facts("")
SANITIZER = "compute-sanitizer"
RESULTS = HERE.parent / "gpu" / "results" / "matrix.json"
AOTI = Path(tempfile.gettempdir()) / "cufence-aoti"


@dataclass(frozen=True)
class Program:
    """A command, and the facts that a tool should name."""

    command: tuple[str, ...]
    facts: Facts
    own: tuple[str, ...] = ()
    sanitizer: str = "memcheck"
    is_python: bool = False


def of_bug(bug: Bug, is_twin: bool) -> Program:
    arguments = [shutil.which("nvcc") or "nvcc" if word == "nvcc" else word for word in bug.arguments]
    if is_twin:
        arguments = [*arguments, *ROOMY] if bug.is_python and bug.twin == ROOMY else list(bug.twin)
    name = (is_twin and bug.twin_program) or bug.program
    if name.endswith(".cu"):
        command = [str(BUILD / "bin" / "programs" / name.replace(".cu", ".static")), *arguments]
    elif is_twin and bug.twin == ROOMY:
        command = [sys.executable, str(HERE / "roomy.py"), str(STORIES / name), *arguments[:-1]]
    elif name == "aoti_overrun.py":
        command = [str(AOTI / "build" / "aoti_app"), str(AOTI / "activation.pt2"), *arguments]
    else:
        command = [sys.executable, str(STORIES / name), *arguments]
    return Program(tuple(command), bug.facts(), bug.own, bug.sanitizer, bug.is_python)


@functools.cache
def sanitizer_says(option: str) -> str:
    return subprocess.run([SANITIZER, option], capture_output=True, text=True, check=False).stdout if shutil.which(SANITIZER) else ""


def more_checks() -> list[str]:
    """What of memcheck is off by default, where the version has it."""
    return ["--check-tensor-ops", "yes"] if "--check-tensor-ops" in sanitizer_says("--help") else []


def sanitizer_here() -> str:
    return " ".join([*re.findall(r"Version (\S+)", sanitizer_says("--version")), *more_checks()])


def command_of(program: Program, tool: str, found: Path) -> list[str]:
    if tool in OURS:
        own = {"run": ("run",), "strict": ("run", "--set", "uaf=strict"), "own": program.own if program.own[:1] == ("hunt",) else ("run", *program.own)}[tool]
        return [str(BUILD / "bin" / "cufence"), *own, "--json", str(found), "--", *program.command]
    if tool == "own_tool":
        tool = ("memcheck", "--leak-check", "full") if program.sanitizer == "leak-check" else (program.sanitizer,)
        return [SANITIZER, "--tool", *tool, *program.command]
    launcher = TOOLS[tool].launcher
    return [*launcher, *(more_checks() if launcher[:1] == (SANITIZER,) else ()), *program.command]


def said_by(program: Program, tool: str, said: str, folder: Path) -> Cell:
    """What is kept of a run."""
    written = (folder / "found.json").read_text() if tool in OURS and (folder / "found.json").exists() else ""
    found = findings_of(written)
    for dump in sorted(folder.glob("*.core")):  # as `cufence explain` reads it; cuda-gdb says the same
        found += findings_of(subprocess.run([BUILD / "bin" / "cufence", "explain", "--json", dump], capture_output=True, text=True, check=False).stdout)
    kept = {
        "findings": [kept_of_finding(one) for one in found][:MOST],
        "reports": kept_of_sanitizer(said),
        "lines": kept_lines(said, Path(program.facts.program).name),
    }
    return {name: value for name, value in kept.items() if value}


def printed_by(file: Path) -> str:
    """Beginning and end of what a program has printed: one that looks at no error may print without end."""
    with file.open("rb") as printed:
        first = printed.read(PRINTED)
        printed.seek(max(PRINTED, file.stat().st_size - PRINTED))
        return (first + printed.read()).decode(errors="replace")


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
        cell: Cell = {}
        with (folder / "printed").open("wb") as printed:
            process = subprocess.Popen(command_of(program, tool, folder / "found.json"), cwd=folder, env=variables, stdin=subprocess.DEVNULL,
                                       stdout=printed, stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
            try:
                cell["status"] = process.wait(PYTHON_SECONDS if program.is_python else SECONDS)
            except subprocess.TimeoutExpired:  # a program that looks at no error may go on for ever; what was said until then counts
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                cell["slow"] = True
        said = printed_by(folder / "printed")
        cell["said"] = said_by(program, tool, said, folder)
        if cell.get("status") and not cell["said"]:
            cell["end"] = said[-400:]
    return cell | {"seconds": round(time.monotonic() - began, 1)}


def may_not_run(program: Program, tool: str) -> str:
    """Why a cell is left empty here, or nothing."""
    lacking = [word for word in (command_of(program, tool, Path("found.json"))[0], program.command[0]) if not shutil.which(word)]
    return f"there is no {lacking[0]}" if lacking else ""


@functools.cache
def fails_natively(twin: Program) -> bool:
    return bool(run_cell(twin, "native").get("status"))


def why_left_out(cell: Cell, word: str, twin: Program | None) -> str:
    if re.search("before first instrumented API call|[Dd]evice not supported", cell.get("end", "")):
        return f"{SANITIZER} does not start it"
    return "its twin fails natively" if twin and twin.is_python and word not in ("found", "silent") and fails_natively(twin) else ""


def is_aoti(program: Program) -> bool:
    return program.command[0].startswith(str(AOTI))


def make_aoti() -> None:
    """Makes the program and the model of the AOTI rows; without them their cells stay empty."""
    AOTI.mkdir(exist_ok=True)
    with (AOTI / "log").open("w") as log:
        subprocess.run([sys.executable, STORIES / "aoti_overrun.py", AOTI], env=TOOLS["native"].variables(), stdout=log, stderr=log, check=False)


def tools_for(program: Program, is_twin: bool) -> list[str]:
    left_out = {tool for tool in FOR_PYTHON if not program.is_python}
    left_out |= {"own_tool"} if program.sanitizer == "memcheck" else set()
    left_out |= {"own"} if not program.own else set()
    left_out |= {"strict"} if program.own[:1] == ("hunt",) else set()
    return [tool for tool in (TWINS if is_twin else COLUMNS) if tool not in left_out]


def corpus_facts(row: dict[str, Any]) -> Facts:
    return Facts(row["kind"], row.get("kernel", ""), row.get("file", ""), row.get("line"), row.get("access", ""), row.get("bytes", 0), program=f"{row['name']}.cu")


def corpus(name: str, folder: Path) -> list[tuple[str, bool, Program]]:
    """The programs of others, which are built here unless the folder has them built: nothing of them is in this tree."""
    programs = []
    listed = json.loads(CORPORA.read_text())[name]
    for row in listed["programs"]:
        label, kind = row["name"], row["kind"]
        out = folder / "built" / label
        if not out.exists():
            out = Path(tempfile.gettempdir()) / "cufence-corpora" / name / label
            out.parent.mkdir(parents=True, exist_ok=True)
            build = [word.format(out=out, **row) for word in row.get("build", listed.get("build", []))]
            done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False) if not out.exists() and build else None
            if done is None and not out.exists() or done and done.returncode:
                print(f"{label} is not built: {done.stderr[-300:] if done else 'the manifest says how'}", file=sys.stderr)
                continue
        arguments = [str(folder / word) if (folder / word).is_file() else word for word in row.get("arguments", listed.get("arguments", []))]
        facts = corpus_facts(row)
        programs.append((f"{name}: {label}", not kind, Program((str(out), *arguments), facts, tuple(row.get("own", ())), row.get("sanitizer", "memcheck"))))
    return programs


def is_slow(cell: Cell) -> bool:
    return bool(cell.get("slow") and not cell.get("said"))


def is_open(cell: Cell | None) -> bool:
    """Whether a cell is to be run: it is not there, or had no end in time beside others."""
    return cell is None or (is_slow(cell) and not cell.get("alone"))


def todo(options: argparse.Namespace, data: dict[str, Any]) -> list[tuple[str, str, str, Program]]:
    """(part, bug, tool, program) of what is not there yet."""
    rows = [(bug.name, False, of_bug(bug, False)) for bug in ZOO] + [(bug.name, True, of_bug(bug, True)) for bug in ZOO]
    for given in options.corpus:
        name, _, folder = given.partition("=")
        rows += corpus(name, Path(folder).resolve())
    tools = [name for name in COLUMNS if name in options.only] or COLUMNS
    bugs = {name for name in options.only if name not in COLUMNS}
    wanted = []
    for name, is_twin, program in rows:
        part = "twins" if is_twin else "bugs"
        wanted += [(part, name, tool, program) for tool in tools_for(program, is_twin)
                   if tool in tools and (not bugs or name in bugs) and is_open(data[part].get(name, {}).get(tool))]  # fmt: skip
    before = json.loads(RESULTS.read_text())  # of each tool, what took long comes first
    return sorted(wanted, key=lambda one: (FIRST.index(one[2]), is_aoti(one[3]), -before[one[0]].get(one[1], {}).get(one[2], {}).get("seconds", 5)))


def as_text(data: dict[str, Any]) -> str:
    """A line for each cell."""
    parts = []
    for part in ("bugs", "twins"):
        rows = (f"{json.dumps(name)}: {{\n" + ",\n".join(f"{json.dumps(tool)}: {json.dumps(cell, sort_keys=True)}" for tool, cell in sorted(row.items())) + "}"
                for name, row in sorted(data[part].items()))  # fmt: skip
        parts.append(f'"{part}": {{\n' + ",\n".join(rows) + "}")
    return f'{{"machines": {json.dumps(data["machines"], indent=1, sort_keys=True)},\n' + ",\n".join(parts) + "}\n"


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The cells of both, of a cell in both the new one, without rows that went; and the machines of these, with most cells first."""
    known = {*(bug.name for bug in ZOO), *(f"{name}: {row['name']}" for name, of in json.loads(CORPORA.read_text()).items() for row in of["programs"])}
    cells = {(part, name, tool): (of["machines"][cell.get("machine", 0)], cell)
             for of in (old, new) for part in ("bugs", "twins") for name, row in of[part].items() for tool, cell in row.items() if name in known}  # fmt: skip
    count = Counter(json.dumps(machine, sort_keys=True) for machine, _ in cells.values())
    machines = [json.loads(machine) for machine, _ in count.most_common()]
    data: dict[str, Any] = {"machines": machines, "bugs": {}, "twins": {}}
    for (part, name, tool), (machine, cell) in cells.items():
        data[part].setdefault(name, {})[tool] = cell | {"machine": machines.index(machine)}
    return data


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
    data: dict[str, Any] = json.loads(options.json.read_text()) if options.json.is_file() else {"machines": [], "bugs": {}, "twins": {}}
    facts |= {"jobs": options.jobs, "sanitizer": sanitizer_here()}
    if facts not in data["machines"]:
        data["machines"].append(facts)
    until, cells, twins = time.monotonic() + options.limit, todo(options, data), {bug.name: of_bug(bug, True) for bug in ZOO}
    aoti, saving = threading.Thread(target=make_aoti if any(is_aoti(one[3]) for one in cells) else int), threading.Lock()
    aoti.start()

    def take(one: tuple[str, str, str, Program], is_alone: bool = False) -> None:
        if time.monotonic() > until:
            return
        part, name, tool, program = one
        if is_aoti(program):
            aoti.join()
        if reason := may_not_run(program, tool):
            print(f"left out: {part:5} {name:26} {tool:18} {reason}", flush=True)
            return
        cell = run_cell(program, tool) | {"machine": data["machines"].index(facts)} | ({"alone": True} if is_alone else {})
        word, named = judge(program.facts, cell)
        if reason := why_left_out(cell, word, twins.get(name)):
            print(f"left out: {part:5} {name:26} {tool:18} {reason}", flush=True)
            return
        with saving:
            data[part].setdefault(name, {})[tool] = cell
            fresh = options.json.with_name(f"{options.json.name}.new")
            fresh.write_text(as_text(data))
            fresh.replace(options.json)
        print(f"{cell['seconds']:5.1f} s  {part:5} {name:26} {tool:18} {word:9} {' '.join(sorted(named))}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(take, cells))
    for one in cells:  # the driver may have lost a fault among several
        if is_slow(data[one[0]].get(one[1], {}).get(one[2], {})):
            take(one, True)
    alarms = [f"{name}: {tool}" for name, row in data["twins"].items() for tool, cell in row.items() if tool in OURS and judge(NO_BUG, cell)[0] != "silent"]
    print(*(f"TWIN {alarm}" for alarm in alarms), sep="\n")
    return int(bool(alarms))


if __name__ == "__main__":
    sys.exit(main())
