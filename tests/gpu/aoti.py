"""Builds and runs the C++ AOTInductor example (docs/examples/aoti): compiles its models, builds the program, and runs it under
`cufence run` and with cufence's C API, with its weights in one block and in a buffer each; and without cufence, as it is and
with what is usually tried first.

    python3 tests/gpu/aoti.py [--json FILE] [--show] [CASE...]

Where there is no GPU, PyTorch, Triton, cmake or nvcc (libtorch's CMake files ask for it), it says so and skips. Exit status:
1 if a case has failed, else 0.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from harness import Case, Result, execute, problems_of, problems_of_statistics
from results import line, summary, write_json
from ways import ROOT, Machine, options_of, own_environment, prepare, reason_to_skip

EXAMPLE = ROOT / "docs" / "examples" / "aoti"
NEEDS = ("torch", "triton", "nvcc")
WAYS = ("run", "api")
WITHOUT = ("native", "classic")
CLASSIC = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUDA_LAUNCH_BLOCKING": "1"}


# The program's own words; where a call of AOTI's was the first to meet the fault, AOTI has named it, and its exception does not.
ERROR = (
    r"aoti_app: .*(illegal memory access|a kernel has faulted)"
    r"|CUDA driver error: an illegal memory access\b.*\n(.*\n)*aoti_app: .*API call failed"
)


def _fault(name: str, arguments: list[str], kernel: str) -> Case:
    return Case(
        name,
        "compile_models",
        arguments,
        report=[
            r"cufence: out-of-bounds READ of \d+ bytes",
            r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
            r"buffer +#\d+, 4000 bytes\b",
            rf"kernel +{kernel}(_\d+)?\b.*exact",  # the number with TORCHINDUCTOR_UNIQUE_USER_KERNEL_NAMES=1
            r"at +\S+\.py:\d+",
        ],
        error=[ERROR],
        ways=WAYS,
        needs=NEEDS,
    )


def _clean(name: str, arguments: list[str], total: int, ways: tuple[str, ...]) -> Case:
    return Case(name, "compile_models", arguments, 0, output=[rf"^sum {total}\b"], ways=ways, needs=NEEDS)


CASES = [
    # What people have before they have cufence: the bug is there, and nothing says so.
    _clean("aoti_silent", ["activation.pt2", "1000"], 4000, WITHOUT),
    _clean("aoti_clean", ["activation.pt2", "1024"], 4096, WAYS),
    _fault("aoti_activation", ["activation.pt2", "1000"], "k_double"),
    # The weights lie in one block: what is read past the first is the second.
    _clean("aoti_weight_in_block", ["weight.pt2", "1000"], 4000, ("run",)),
    _fault("aoti_weight_alone", ["--weights", "weights.pt", "outside.pt2", "1000"], "k_gain"),
]

# The line that the report has to name, as Inductor writes it into the file that it compiles.
FAULTY_LINES = {"aoti_activation": "tl.load(x + i)", "aoti_weight_alone": "tl.load(gain + i)"}


def build_steps(machine: Machine, folder: Path) -> list[tuple[str, list[str]]]:
    prefix = "import torch; print(torch.utils.cmake_prefix_path)"
    found = subprocess.run([sys.executable, "-c", prefix], capture_output=True, text=True, check=True).stdout.strip()
    configure = [
        "cmake",
        "-S",
        str(EXAMPLE),
        "-B",
        str(folder / "build"),
        f"-DCMAKE_PREFIX_PATH={found}",
        "-DCMAKE_DISABLE_FIND_PACKAGE_cufence=ON",  # this checkout's, whatever else is installed
        f"-DCUFENCE_LIBRARY={machine.library}",
        f"-DCMAKE_CUDA_COMPILER={machine.facts['nvcc']}",
    ]
    return [
        ("compile the models", [sys.executable, "-u", str(EXAMPLE / "compile_models.py"), str(folder)]),
        ("configure", configure),
        ("build", ["cmake", "--build", str(folder / "build")]),
    ]


def build(machine: Machine, folder: Path) -> str | None:
    """Makes the models and the program; says what went wrong, with the end of what it printed."""
    environment = own_environment(folder)
    environment.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")  # libtorch's CMake files want one; nothing here is compiled for it
    for title, command in build_steps(machine, folder):
        print(f"{title} ...", flush=True)
        done = execute(command, environment, folder, 500)
        if done.status != 0:
            return f"{title} ended with status {done.status}:\n{(done.stdout + done.stderr)[-3000:]}"
    return None


def start(case: Case, way: str, machine: Machine, folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command and the environment of one run."""
    environment = own_environment(folder)
    options = options_of(case)
    program = [str(folder / "build" / "aoti_app"), *(["--api"] if way == "api" else []), *case.arguments]
    if way == "api":
        environment["CUFENCE_OPTIONS"] = ",".join(f"{key}={value}" for key, value in options.items())
        return program, environment
    if way in WITHOUT:
        return program, {**environment, **CLASSIC} if way == "classic" else environment
    settings = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    return [str(machine.command), "run", *settings, "--", *program], environment


def problems_of_line(report: str, expected: str, folder: Path) -> list[str]:
    """The report names a file that Inductor has written: is it the faulty line that stands there?"""
    match = re.search(r"at +(\S+\.py):(\d+)", report)
    if not match:
        return []  # said already
    files = list((folder / "inductor").rglob(Path(match[1]).name))
    if not files:
        return [f"there is no {match[1]} among Inductor's files"]
    lines = files[0].read_text().splitlines()
    number = int(match[2])
    found = lines[number - 1].strip() if number <= len(lines) else f"(it has {len(lines)} lines)"
    return [] if expected in found else [f"line {number} of {match[1]} is {found!r}, expected {expected!r}"]


def run_case(case: Case, way: str, machine: Machine, folder: Path) -> Result:
    command, environment = start(case, way, machine, folder)
    run = execute(command, environment, folder, case.seconds)
    problems, facts = problems_of(case, run, "")
    if case.status == 0 and way not in WITHOUT:
        problems += problems_of_statistics(case, run)
    if case.name in FAULTY_LINES:
        problems += problems_of_line(run.report, FAULTY_LINES[case.name], folder)
    return Result(case.name, not problems, "; ".join(problems or facts), None, run, way)


def show(result: Result, is_shown: bool) -> None:
    print(line(result), flush=True)
    if result.run and (is_shown or not result.ok):
        for name, text in (("stdout", result.run.stdout), ("stderr", result.run.stderr)):
            print("".join(f"    {name}: {row}\n" for row in text.splitlines()[-60:]), end="", flush=True)


def run_all(cases: list[Case], machine: Machine, is_shown: bool) -> list[Result]:
    runs = [(case, way) for case in cases for way in case.ways]
    reason = next((reason for case, way in runs if (reason := reason_to_skip(case, way, machine))), None)
    if not reason and not shutil.which("cmake"):
        reason = "there is no cmake"
    problem = None if reason else build(machine, machine.folder)
    results = []
    for case, way in runs:
        if reason or problem:
            results.append(Result(case.name, None if reason else False, reason or problem or "", way=way))
            problem = problem and "as the one before"
        else:
            results.append(run_case(case, way, machine, machine.folder))
        show(results[-1], is_shown)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds and runs the C++ AOTInductor example.")
    parser.add_argument("names", nargs="*", metavar="CASE", help=f"all without any: {', '.join(case.name for case in CASES)}")
    parser.add_argument("--json", type=Path, help="write the results here, for run.py --also")
    parser.add_argument("--show", action="store_true", help="print what every run printed, not only the failed ones")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - {case.name for case in CASES})
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}")
    cases = [case for case in CASES if not options.names or case.name in options.names]
    machine = prepare(None, "cufence-aoti")
    results = run_all(cases, machine, options.show)
    if options.json:
        write_json(results, options.json)
    print(summary(results))
    return 1 if any(result.ok is False for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
