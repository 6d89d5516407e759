"""Builds docs/examples/aoti, and runs it: a bug that nothing reports, under `cufence run`, and with the C API.

Usage and exit status are as in script.py.
"""

from __future__ import annotations

import argparse
import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

from harness import ROOT, Case, Machine, Result, execute, options_of, own_environment, prepare, problems_of, problems_of_statistics, reason_to_skip
from results import show
from script import Judged, run_script

EXAMPLE = ROOT / "docs" / "examples" / "aoti"
NEEDS = ("torch", "triton", "nvcc")
WAYS = ("run", "api")
WITHOUT = ("native", "classic")
CLASSIC = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "CUDA_LAUNCH_BLOCKING": "1"}
PROGRAM = "compile_models.py"

# The program's own message. If a call of AOTI's got the error first, AOTI printed it, and its exception does not contain it.
ERROR = (
    r"aoti_app: .*(illegal memory access|a kernel has faulted)"
    r"|CUDA driver error: an illegal memory access\b.*\n(.*\n)*aoti_app: .*API call failed"
)


def _fault(name: str, arguments: list[str], kernel: str) -> Case:
    report = [
        r"cufence: out-of-bounds READ of \d+ bytes",
        r"\b0 bytes past the end of buffer #\d+.*(exact|derived)",
        r"buffer +#\d+, 4000 bytes\b",
        rf"kernel +{kernel}(_\d+)?\b.*exact",  # the number with TORCHINDUCTOR_UNIQUE_USER_KERNEL_NAMES=1
        r"at +\S+\.py:\d+",
    ]
    return Case(name, PROGRAM, arguments, report=report, error=[ERROR], ways=WAYS, needs=NEEDS)


def _clean(name: str, arguments: list[str], total: int, ways: tuple[str, ...]) -> Case:
    return Case(name, PROGRAM, arguments, 0, output=[rf"^sum {total}\b"], ways=ways, needs=NEEDS)


CASES = [
    # The third kernel makes a NaN, found without compiling the model again. Nothing says the types of AOTInductor's kernels.
    Case("aoti_nan", PROGRAM, ["nan.pt2", "1024"], 86, options={"nan": "report"}, output=[r"(?i)^sum -?nan\b"], ways=("run",), needs=NEEDS, report=[
        r"\A==\d+== cufence: first NaN: triton_\S+ writes 1 NaN to buffer #\d+, first to element 417 of word32",
        "a logarithm or root of one is NaN"]),
    Case("aoti_values", PROGRAM, ["activation.pt2", "1024"], 0, options={"values": "k_double*"}, output=[r"^sum 4096\b"], ways=("run",), needs=NEEDS,
         error=[r"values of launch #\d+: k_double", r"min 4\.0 max 4\.0 mean 4\.0 std 0\.0, 0 NaN"]),
    # Without cufence: the bug exists, and nothing reports it.
    _clean("aoti_silent", ["activation.pt2", "1000"], 4000, WITHOUT),
    _clean("aoti_clean", ["activation.pt2", "1024"], 4096, WAYS),
    _fault("aoti_activation", ["activation.pt2", "1000"], "k_double"),
    # The weights are in one block: a read past the first hits the second.
    _clean("aoti_weight_in_block", ["weight.pt2", "1000"], 4000, ("run",)),
    _fault("aoti_weight_alone", ["--weights", "weights.pt", "outside.pt2", "1000"], "k_gain"),
]  # fmt: skip

# The line that the report must name, as in the file that Inductor generates.
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
        "-DCMAKE_DISABLE_FIND_PACKAGE_cufence=ON",  # use this checkout's, even if another one is installed
        f"-DCUFENCE_LIBRARY={machine.library}",
        f"-DCMAKE_CUDA_COMPILER={machine.facts['nvcc']}",
    ]
    return [
        ("compile the models", [sys.executable, "-u", str(EXAMPLE / "compile_models.py"), str(folder)]),
        ("configure", configure),
        ("build", ["cmake", "--build", str(folder / "build")]),
    ]


def build(machine: Machine, folder: Path) -> str | None:
    """Makes the models and the program. Returns what went wrong, with the end of the output."""
    environment = own_environment(folder)
    environment.setdefault("TORCH_CUDA_ARCH_LIST", "9.0")  # required by libtorch's CMake files; no device code is compiled here
    for title, command in build_steps(machine, folder):
        print(f"{title} ...", flush=True)
        done = execute(command, environment, folder, 500)
        if done.status != 0:
            return f"{title} ended with status {done.status}:\n{(done.stdout + done.stderr)[-3000:]}"
    return None


def start(case: Case, way: str, machine: Machine, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Returns the command and the environment of a run."""
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
    """Checks that the report names a file generated by Inductor, and that the faulty line is there."""
    match = re.search(r"at +(\S+\.py):(\d+)", report)
    if not match:
        return []  # already reported
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
    problems, facts = problems_of(case, run)
    if case.status == 0 and way not in WITHOUT:
        problems += problems_of_statistics(case, run)
    if way == "run" and (machine.library.parent / "torch").is_dir() and "PyTorch's allocator: cufence" not in run.stderr:
        problems.append("cufence is not PyTorch's allocator, though it was built with classes for PyTorch")
    if case.name in FAULTY_LINES:
        problems += problems_of_line(run.report, FAULTY_LINES[case.name], folder)
    return Result(case.name, not problems, "; ".join(problems or facts), None, run, way)


@functools.cache
def prepared() -> tuple[Machine, str | None, str | None]:
    """The machine, why nothing can run on it, and what has failed to be built."""
    machine = prepare(None, "cufence-aoti")
    reason = reason_to_skip(CASES[0], "run", machine) or (None if shutil.which("cmake") else "there is no cmake")
    return machine, reason, None if reason else build(machine, machine.folder)


RUNS = {f"{case.name.removeprefix('aoti_')}.{way}": (case, way) for case in CASES for way in case.ways}


def judge(name: str, _: argparse.Namespace) -> Judged:
    case, way = RUNS[name]
    machine, reason, problem = prepared()
    if reason or problem:
        return Result(case.name, None if reason else False, reason or problem or "", way=way)
    return show(run_case(case, way, machine, machine.folder), False)


if __name__ == "__main__":
    sys.exit(run_script(__doc__, "aoti", RUNS, judge, needs_device=False))
