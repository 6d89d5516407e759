"""Runs the plain CUDA programs in programs/ and docs/examples/ under `cufence run`, with the CUDA runtime linked statically and dynamically.

    python3 tests/gpu/programs.py [--json FILE] [--show] [CASE...]

With nvcc, the build puts them into bin/programs. Cases are skipped if something is missing. Exit status: 1 if a case has failed, else 0.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import sysconfig
from pathlib import Path

import cases_cause
import cases_freed
import cases_pools
import cases_rerun
from harness import Case, Result, execute, marked_line, problems_of, problems_of_statistics
from results import line, summary, write_json
from ways import BUILD, HERE, Machine, options_of, own_environment, prepare, reason_to_skip

SOURCES = HERE / "programs"
EXAMPLES = HERE.parents[1] / "docs" / "examples"
BUILT = BUILD / "bin" / "programs"
RUNTIMES = ("static", "shared")
ANY_CUDA = Path("/usr/local/cuda/lib64")


def source_of(story: str) -> Path:
    own = SOURCES / f"{'code' if story.startswith('code_') else story}.cu"  # one source for the codes of three kinds
    return own if own.exists() else EXAMPLES / own.name


def _program(name: str, source: str | None = None, **facts: object) -> Case:
    return Case(name, source or name, ways=RUNTIMES, **{"needs": (), **facts})  # type: ignore[arg-type]


def _rerun(kind: str, owner: str, written: str, block: object = 7, thread: object = 104, **other: object) -> Case:
    """A store at the end of a kernel, of which only the second launch knows address and thread."""
    story = SOURCES / "rerun.cu"
    mark = dict.fromkeys(("large", "busy", "graph", "updated", "late", "null", "wild", "green"), "store_4")
    mark.update(pinned="by_host", registered="through_host")
    line_number = marked_line(story.read_text(), f"FAULT {mark.get(kind, kind)}")
    kernel = mark.get(kind, kind)
    report = [
        owner,
        rf"kernel +{kernel}\b.*exact",
        rf"rerun\.cu:{line_number}\b",
        rf"block \({block},0,0\) thread \({thread},0,0\)",
        r"address .*(re-run|derived|exact)",
        *([written] if written else []),
    ]
    files = {"report.json": [r'"outcome": ?"faulted"']} if written else {"report.json": [r'"rerun"']}
    return _program(f"rerun_{kind}", "rerun", arguments=[kind], report=report, files=files, **other)


def _moved_on(kind: str, access: str, distance: int, where: str = r"block \(3,0,0\) thread \(53,0,0\)", **other: object) -> Case:
    """An access whose address registers have changed when the driver looks."""
    report = [
        rf"out-of-bounds {access}, {distance} bytes past the end of buffer #1\b",
        rf"kernel +{kind}\b.*exact",
        rf"moved_on\.cu:{marked_line((SOURCES / 'moved_on.cu').read_text(), f'FAULT {kind}')}\b",
        where,
        r"address .*(re-run|exact)",
        *other.pop("also", []),  # type: ignore[misc]
    ]
    return _program(f"moved_on_{kind}", "moved_on", arguments=[kind], status=3, report=report, **other)


def _past(buffer: int = 1) -> str:
    return rf"\b0 bytes past the end of buffer #{buffer}\b"


CASES = [
    *(_program(f"freed_{kind}", "freed", arguments=[kind], **facts) for kind, facts in cases_freed.programs((SOURCES / "freed.cu").read_text())),
    *(_program(f"pool_{kind}", "pool", arguments=[kind], **facts) for kind, facts in cases_pools.PROGRAMS),
    *(
        _rerun(kind, _past(), rf"written +{bytes} bytes? past the end: ({value}).*re-run")
        for kind, bytes, value in (
            ("store_2", 2, "0x1234|3412"),
            ("store_half", 2, "0x3e00|003e"),
            ("store_4", 4, r"2\.5"),
            ("store_8", 8, r"2\.5|0x"),
            ("store_16", 16, ""),
            ("by_struct", 4, r"2\.5"),
            ("nested", 4, r"2\.5"),
            ("cooperative", 4, r"2\.5"),
            ("much_shared", 4, r"2\.5"),
        )
    ),
    _rerun("store_1", _past(), r"written +1 byte past the end: .*07", thread=112),  # 1008 elements: no slack behind them
    _rerun("add", _past(), r"written +\d bytes? past the end .*re-run"),  # what was added to is the pattern
    *(
        _rerun(kind, _past(), r"written +\d bytes?(, beginning \d bytes?)? past the end .*re-run")
        for kind in ("add_8", "add_float", "add_half2", "exchange")
    ),
    *(_rerun(kind, _past(), "") for kind in ("swap", "swap_8")),
    # cp.async, which reads: the warp waits for it, so the dump may tell all, and then nothing is launched again.
    *(
        _program(
            f"rerun_copy_{bytes}",
            "rerun",
            arguments=[f"copy_{bytes}"],
            report=[
                rf"out-of-bounds READ of {bytes} bytes, 0 bytes past the end of buffer #1\b",
                rf"kernel +copy_{bytes}\b.*exact",
                rf"rerun\.cu:{marked_line((SOURCES / 'rerun.cu').read_text(), 'FAULT copy')}\b",
                r"block \(7,0,0\) thread \(104,0,0\)",
                r"address .*(re-run|derived|exact)",
                r"LDGSTS",
            ],
        )
        for bytes in (4, 8, 16)
    ),
    _moved_on("gather", "READ of 4 bytes", 64),
    _moved_on("gather_8", "READ of 8 bytes", 128),
    _moved_on("gather_16", "READ of 16 bytes", 256),
    _moved_on("gather_1", "READ of 1 byte", 16),
    _moved_on("chase", "READ of 8 bytes", 0, r"block \(7,0,0\) thread \((9[6-9]|10[0-3]),0,0\)"),
    _moved_on("search", "READ of 8 bytes", 0),
    _moved_on("heavy", "READ of 4 bytes", 64),
    _moved_on("count", "ATOMIC of 4 bytes", 64),
    _moved_on("fill", "WRITE of 4 bytes", 0, r"block \(\d,0,0\) thread \(\d+,0,0\)", also=[r"written +16 bytes past the end: 2\.5"]),
    _moved_on("fill_strided", "WRITE of 4 bytes", "(?:0|272)", r"block \(\d,0,0\) thread \(\d+,0,0\)", also=[r"written +4 bytes past the end: 2\.5"]),
    *(_rerun(kind, _past(), r"written +4 bytes past the end: 2\.5") for kind in ("green", "pinned", "registered")),
    _rerun("no_mask", _past(), r"written +96 bytes past the end: 1000\.0 1000\.0.*re-run"),
    _rerun("before", r"4 bytes before the start of buffer #1", r"written +4 bytes before", 0, 0, options={"side": "start"}),
    _rerun("by_table", _past(2), r"written +4 bytes past the end: 2\.5"),
    _rerun("far_away", _past(), ""),
    _rerun("large", _past(), r"written +4 bytes past the end: 2\.5", 6291456, 0),
    _rerun("busy", _past(6), r"written +4 bytes past the end: 2\.5"),
    *(_rerun(kind, _past(2), r"written +4 bytes past the end: 2\.5") for kind in ("graph", "updated")),
    _program(
        "rerun_managed",
        "rerun",
        arguments=["managed"],
        report=[r"kernel +by_host\b.*exact", "an argument points to managed memory"],
        files={"report.json": [r'"outcome": ?"failed"']},
    ),
    _rerun("late", r"into buffer #1, which has been freed", "", r"\d", r"\d+", options={"uaf": "strict"}),
    _rerun("null", "null-pointer WRITE", "", r"\d", r"\d+"),
    _rerun("wild", "wild-address WRITE of 4 bytes at 0x123456789", "", r"\d", r"\d+"),
    _program(
        "overrun",
        report=[
            r"cufence: out-of-bounds READ of \d+ bytes",
            r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
            r"buffer +#\d+, 4000 bytes\b",
            r"kernel +add_next\b.*exact",
            r"overrun\.cu:{FAULT}\b",
            r"block \(7,0,0\) thread \(103,0,0\)",
            r"allocated at  (?!.*cudaMalloc).*main",  # the native stack, without the runtime's own frames
        ],
        output=["cudaDeviceSynchronize: cudaErrorIllegalAddress", "cudaGetLastError: cudaErrorIllegalAddress"],
        files={"report.json": [r'"kind": ?"overrun"']},
    ),
    *(
        _program(
            f"slack_{'_'.join(arguments)}",
            "slack",
            arguments=list(arguments),
            status=86,
            report=[
                rf"cufence: slack WRITE: {what} buffer #1\b",
                r"buffer +#1, 1000 bytes\b",
                r"found +41 41 41",
                r"given to +store_at<<<\(1,1,1\), \(32,1,1\)>>>",
            ],
            output=["done"],
            files={"report.json": [r'"kind": ?"slack write"']},
        )
        for arguments, what in (
            (("before",), "16 bytes changed, 16 bytes before the start of"),
            (("before", "async"), "16 bytes changed, 16 bytes before the start of"),
            (("tail",), "3 bytes changed, 0 bytes past the end of"),
            (("tail", "async"), "3 bytes changed, 0 bytes past the end of"),
        )
    ),
    _program("slack_clean", "slack", arguments=["clean"], options={"slack_every": "16"}, status=0, output=["done"]),
    _program(
        "example_fault",
        "fault",
        report=[
            r"cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #\d+",
            r"kernel +shift\b.*",
            r"fault\.cu:{FAULT}\b",
            r"block \(24,0,0\) thread \(39,0,0\)",
        ],
        output=["an illegal memory access was encountered"],
    ),
    _program("overrun_careless", "overrun", arguments=["careless"], status=86, report=[r"cufence: out-of-bounds READ"]),
    _program(
        "overrun_exitcode",
        "overrun",
        arguments=["careless"],
        options={"on_fault": "/41"},
        status=41,
        report=[r"cufence: out-of-bounds READ"],
    ),
    # Tensor maps: one of too many rows, one whose buffer is freed, and a bulk copy without one.
    *(
        _program(
            f"tensor_map_{what}",
            "tensor_map",
            arguments=[what],
            report=[
                report,
                rf"tensor_map\.cu:{marked_line((SOURCES / 'tensor_map.cu').read_text(), f'FAULT {mark}')}\b",
                rf"instruction +{instruction} \[UR",
                *([rf"argument 0 {note}, \[{rows}, 64\] of 4 bytes in\s"] if note else []),
            ],
        )
        for what, report, mark, instruction, note, rows in (
            ("load", r"out-of-bounds READ of 256 bytes, \d+ bytes past the end of buffer #1\b", "load", r"UTMALDG\.2D", "is a tensor map", 512),
            ("store", r"out-of-bounds WRITE of 256 bytes, \d+ bytes past the end of buffer #1\b", "store", r"UTMASTG\.2D", "is a tensor map", 512),
            ("add", r"out-of-bounds ATOMIC of 256 bytes, \d+ bytes past the end of buffer #1\b", "add", r"UTMAREDG\.2D", "is a tensor map", 512),
            ("freed", r"use-after-free READ of 256 bytes, \d+ bytes? into buffer #1, which has been freed", "load", r"UTMALDG\.2D", "is a tensor map", 256),
            ("copied", r"use-after-free READ of 256 bytes, \d+ bytes? into buffer #1, which has been freed", "load", r"UTMALDG\.2D", "points to a copy of a tensor map", 256),
            ("bulk", r"out-of-bounds READ of 4096 bytes, \d+ bytes past the end of buffer #1\b", "bulk", r"UBLKCP\.S\.G", "", 0),
        )
    ),
    _program("tensor_map_good", "tensor_map", arguments=["good"], status=0, output=["cudaSuccess"], error=["tensor maps: 1 of guarded buffers, of which 0"]),
    # Pinned memory that is filled again, or freed, while a copy may use it; and the same with a wait.
    *(
        _program(
            f"host_copies_{what}",
            "host_copies",
            arguments=[what],
            options={"streams": "on+host"},
            status=86 if report else 0,
            report=[report, r"in use by +cuMemcpy(HtoD|DtoH)Async"] if report else [],
            output=["done"],
        )
        for what, report in (
            ("again", r"stream race by cuMemcpyHtoDAsync: finds a change in 4194304 bytes of pinned memory at 0x"),
            ("freed", r"stream race by cuMemFreeHost: frees 32 bytes of pinned memory at 0x"),
            ("event", ""),
            ("waited", ""),
        )
    ),
    # Equal kernels: a blamed buffer must be that of the launch that faulted (numbers count allocations).
    *(
        _program(
            f"equal_kernels_{place}_{which}",
            "equal_kernels",
            arguments=[str(which), place],
            report=[
                r"cufence: (out-of-bounds WRITE of 4 bytes|illegal memory access by a WRITE)",
                rf"0 bytes past the end of buffer #{which + 1}\b|buffer +#{which + 1}, 4000 bytes\b.*candidate",
                r"kernel +fill\b.*exact",
                r"equal_kernels\.cu:{FAULT}\b",
            ],
            files={"report.json": [r'"kind": ?"(overrun|illegal access)"']},
        )
        for place in ("graph", "stream")
        for which in (0, 1, 2)
    ),
    _program(
        "pointer_table",
        report=[
            r"kernel +fill\b.*exact",
            r"pointer_table\.cu:{FAULT}\b",
            r"0 bytes past the end of buffer #2\b|the address was loaded from memory",
        ],
        files={"report.json": [r'"loaded": ?true']},
    ),
    *(_program(f"{program}_{kind}", program, arguments=[kind], **facts) for program, kind, facts in (*cases_rerun.programs(SOURCES), *cases_cause.programs(SOURCES))),
    # Before the driver begins the dump, while it writes it, and shortly before the end.
    *(
        _program(
            f"exits_after_{delay}_ms",
            "exits",
            arguments=[str(delay)],
            status=86,
            report=[r"cufence: out-of-bounds READ of 4 bytes", r"kernel +increment\b", r"exits\.cu:{FAULT}\b"],
        )
        for delay in (0, 5, 10, 20, 40, 80)
    ),
    _program(
        "double_free",
        report=[r"cufence: double free by cuMemFree", r"buffer +#\d+, 4000 bytes\b", r"freed +\S.* ago by thread \d+"],
        output=["second free: cudaErrorInvalidValue"],
    ),
    # The same natively, without its argument: how much the driver itself uses.
    _program(
        "stacks",
        arguments=["guarded"],
        status=86,
        report=[r"cufence: double free by cuMemFree", r"called at +work\b.*\n==\d+== +work_on_thread\b"],
        reports=2,  # on the thread and in a fibre, whose frames differ; the second fibre's are the first one's
        output=[r"(second free: cudaErrorInvalidValue\n(\w+ fibre: \d+ bytes of stack\n)?){3}"],
    ),
    _program(
        "clean",
        status=0,
        output=["figures", r"plain\npitched\nstream-ordered\ngraph\nrange 4000\nreset\nplain\n", "graph\nrange 4000\ndone"],
        allocations=400,
    ),
    _program(
        "clean_strict",
        "clean",
        status=0,
        options={"uaf": "strict"},
        output=["range 4000\nreset", "range 4000\ndone"],
        allocations=400,
    ),
    _program("oom", status=0, output=[r"\d+ GiB, then cudaErrorMemoryAllocation", "recovered"], allocations=3),
    # Natively they fit many times, in whole pages not at all: they share pages, or with small=map what has no room is left to the
    # driver, and so is what the options name.
    _program(
        "small_ones",
        status=0,
        output=["100000 buffers are right", "and once more"],
        error=[r"no faults; 133,339 allocations guarded", r"packed: 1[23]\d,\d{3} allocations"],
        allocations=133339,
        seconds=600,
    ),
    _program(
        "small_ones_no_fallback",
        "small_ones",
        status=2,
        options={"small": "map", "fallback": "off"},
        output=["cudaErrorMemoryAllocation"],
    ),
    *(
        _program(
            f"small_ones_{name}",
            "small_ones",
            status=0,
            options=options,
            output=["100000 buffers are right", "and once more"],
            error=error,
            allocations=allocations,
            seconds=600,
        )
        for name, options, error, allocations in (
            (
                "map",
                {"small": "map"},
                ["device 0 has no room left for whole pages of 2 MiB", r"not guarded: [\d,]+ buffers for whose pages of 2 MiB"],
                10000,
            ),
            ("min_size", {"skip": "smaller:64K"}, [r"not guarded: 133,33\d buffers smaller than skip=smaller"], 3),
            ("skip", {"skip": "lib:small_ones*;lib:libcudart*"}, [r"not guarded: 133,3\d\d buffers that skip names"], 0),
        )
    ),
    _program(
        "leak",
        status=86,
        options={"leaks": "on"},
        output=["done"],
        report=[r"cufence: leak of 3 buffers, 3 MiB in all", r"SUMMARY: cufence: leak"],
        files={"report.json": [r'"kind": ?"leak"']},
    ),
    _program("leak_off", "leak", status=0, output=["done"], allocations=4),
    _program(
        "peers",
        status=0,
        output=[r"no access\n(cuda\w+: cudaSuccess, right\n){5}access\n(cuda\w+: cudaSuccess, right\n){5}a kernel: cudaSuccess, right"],
        needs=("two GPUs",),
    ),
    *(
        _program(
            f"nan_{kind}",
            "nan",
            arguments=[kind],
            status=86,
            options={"nan": "report"},
            report=[
                rf"\A==\d+== cufence: first NaN: {kernel} writes 1 NaN to buffer #\d+, first to element 41700 of {type_}\[100000\]",
                rf"written at\s+\S*nan\.cu:{line}\b",
            ],
            output=["done"],
            files={"report.json": [r'"kind": ?"first NaN"', r'"index": ?41700']},
        )
        for kind, kernel, type_, line in (
            ("log", "log_of", "float32", 31),
            ("divide", "divide", "float32", 37),
            ("half", "attend", "float16", 45),
        )
    ),
    *(
        _program(
            f"code_{kind}",
            status=86,
            options={"nan": "report", "uaf": "off"},
            report=[
                r"\A==\d+== cufence: first NaN: negate writes 1 NaN to buffer #\d+, first to element 4170 of float32\[10000\]",
                r"written at\s+\S*code\.cu:16\b",
                "an input that nobody has written holds NaN",
            ],
            output=["done"],
        )
        for kind in ("zstd", "lz4", "ptx")
    ),
    _program("managed", status=0, output=["pinned", "mapped", "managed"]),
    _program("ipc", output=["cudaIpcGetMemHandle: cudaErrorInvalidValue"], error=["ipc=driver"]),
    _program(
        "ipc_driver", "ipc", status=0, options={"ipc": "driver"}, output=["cudaIpcGetMemHandle: cudaSuccess"], allocations=0
    ),
]


def wanted_runtime(program: Path) -> str | None:
    """Returns the file name of the CUDA runtime that a program is linked with."""
    found = re.search(rb"libcudart\.so\.\d+", program.read_bytes())
    return found[0].decode() if found else None


def runtime_folder(program: Path, machine: Machine) -> Path | None:
    """Returns the folder of the runtime that a program needs: the toolkit's, or that of PyTorch's packages."""
    name = wanted_runtime(program)
    nvcc = machine.facts.get("nvcc")
    folders = [Path(nvcc).resolve().parent.parent / "lib64"] if nvcc else []
    named = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    packages = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/*/lib"))
    return next((folder for folder in [*named, *folders, ANY_CUDA, *packages] if name and (folder / name).is_file()), None)


def prepare_run(case: Case, runtime: str, machine: Machine) -> tuple[Path, dict[str, str], str | None]:
    """Returns the program, its environment, and why it cannot run."""
    program = BUILT / f"{case.story}.{runtime}"
    environment = own_environment(machine.folder)
    reason = reason_to_skip(case, runtime, machine)
    if not reason and not program.is_file():
        reason = f"there is no {program.name} in the build: it had no nvcc, or only one kind of the CUDA runtime"
    if not reason and runtime == "shared":
        folder = runtime_folder(program, machine)
        if folder is None:
            reason = f"there is no {wanted_runtime(program)}"
        else:
            before = environment.get("LD_LIBRARY_PATH")
            environment["LD_LIBRARY_PATH"] = f"{folder}:{before}" if before else str(folder)
    return program, environment, reason


def run_case(case: Case, runtime: str, machine: Machine) -> Result:
    program, environment, reason = prepare_run(case, runtime, machine)
    if reason:
        return Result(case.name, None, reason, way=runtime)
    settings = [word for key, value in options_of(case).items() for word in ("--set", f"{key}={value}")]
    place = machine.folder / f"{case.name}.{runtime}"
    place.mkdir()
    command = [str(program), *case.arguments]
    cufence = [str(machine.command), "run", "--json", "report.json", *settings, "--"]
    run = execute([*cufence, *command], environment, place, case.seconds)
    problems, facts = problems_of(case, run, source_of(case.story).read_text(), place)
    if case.status == 0:
        problems += problems_of_statistics(case, run)
        if problems:  # check whether the failure is due to cufence
            alone = execute(command, environment, place, case.seconds)
            problems.append(f"without cufence it ends with status {alone.status}, {alone.stdout.strip()[-200:]!r}")
    return Result(case.name, not problems, "; ".join(problems or facts), None, run, runtime)


def show(result: Result, is_shown: bool) -> None:
    print(line(result), flush=True)
    if result.run and (is_shown or not result.ok):
        for name, text in (("stdout", result.run.stdout), ("stderr", result.run.stderr)):
            print("".join(f"    {name}: {row}\n" for row in text.splitlines()[-60:]), end="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the plain CUDA programs under cufence run.")
    parser.add_argument("names", nargs="*", metavar="CASE", help=f"all without any: {', '.join(case.name for case in CASES)}")
    parser.add_argument("--json", type=Path, help="write the results here, for run.py --also")
    parser.add_argument("--show", action="store_true", help="print what every run printed, not only the failed ones")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - {case.name for case in CASES})
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    machine = prepare(None, "cufence-programs")
    results = []
    for case in CASES:
        for runtime in case.ways if not options.names or case.name in options.names else ():
            results.append(run_case(case, runtime, machine))
            show(results[-1], options.show)
    if options.json:
        write_json(results, options.json)
    print(summary(results))
    return 1 if any(result.ok is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
