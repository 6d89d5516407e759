"""The ways to run a story with cufence, and what this machine has for them.

enable    with_enable.py calls cufence.enable() and then runs the story
run       `cufence run -- python story.py`
backend   PYTORCH_CUDA_ALLOC_CONF=backend:cufence,... python story.py, in a virtual environment where the wheel is installed
itself    python story.py: the story calls cufence
wheel     python story.py in that environment, with nothing set: the story's arguments request cufence
native    python story.py without cufence, for comparison
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from harness import Case, Result, execute, problems_of, problems_of_statistics

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STORIES = HERE / "stories"
BUILD = Path(os.environ.get("CUFENCE_BUILD") or ROOT / "build")
WAYS = ("enable", "run", "backend", "itself", "wheel")
_comparing = threading.Lock()  # one way of a case runs the comparison, the others wait for it

# Settings of the user that would change a story.
_FOREIGN = (
    "CUFENCE_OPTIONS", "CUFENCE_DRIVER", "CUFENCE_LIBRARY", "LD_PRELOAD", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_LAUNCH_BLOCKING", "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_PYTHON_CLIENT_PREALLOCATE", "RANK", "LOCAL_RANK",
)  # fmt: skip

PROBE = """
import json, sys
facts = {"python": sys.version.split()[0]}
for name in ("torch", "triton", "jax", "cupy", "pytest"):
    try:
        facts[name] = __import__(name).__version__
    except Exception as error:
        facts[name + "_error"] = f"{type(error).__name__}: {error}"
if "torch" in facts:
    import torch
    facts["cuda"] = torch.version.cuda
    facts["gpu"] = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    facts["two GPUs"] = "yes" if torch.cuda.device_count() > 1 else None
print("facts " + json.dumps(facts))
"""


@dataclass
class Machine:
    """Where and with what stories run."""

    folder: Path  # each run gets its own folder in here, with a copy of the stories
    facts: dict[str, str | None]
    library: Path
    command: Path  # the cufence command
    python_with_wheel: Path | None
    why_no_wheel: str = "--wheel names no wheel to install"


def probe() -> dict[str, str | None]:
    """Returns what this machine has. Uses a process of its own, so that this one never starts CUDA."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("facts "):
            facts: dict[str, str | None] = json.loads(line[6:])
            break
    else:
        facts = {"torch_error": f"the probe ended with status {done.returncode}: {done.stderr.strip()[-300:]}"}
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"]
        first = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
        facts["driver"], _, name = (part.strip() for part in first.partition(","))
        facts["gpu"] = facts.get("gpu") or name
    except (OSError, subprocess.CalledProcessError, IndexError):
        facts["driver"] = None
    facts["nvcc"] = find_nvcc()
    return facts


def find_nvcc() -> str | None:
    found = shutil.which("nvcc")
    named = Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda") / "bin" / "nvcc"
    return found or (str(named) if named.is_file() else None)


def install_wheel(wheel: Path, folder: Path) -> Path:
    """Makes a virtual environment with the wheel that also sees this interpreter's packages. Returns its python. No network."""
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    if sys.prefix != sys.base_prefix:  # otherwise "system" means the base interpreter, not the environment that this runs in
        ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        site = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
        (Path(site) / "of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, str(wheel)], check=True)
    return python


def prepare(wheel: Path | None, name: str = "cufence-stories") -> Machine:
    # A neutral folder: Triton records the path of a script, and reports show it.
    folder = Path(tempfile.gettempdir()) / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    library = Path(os.environ.get("CUFENCE_LIBRARY") or BUILD / "lib" / "libcufence.so")
    machine = Machine(folder, probe(), library, BUILD / "bin" / "cufence", None)
    if wheel is not None:
        try:
            machine.python_with_wheel = install_wheel(wheel, folder / "venv")
        except (OSError, subprocess.CalledProcessError) as error:
            machine.why_no_wheel = f"{wheel} could not be installed: {error}"
    return machine


def reason_to_skip(case: Case, way: str, machine: Machine) -> str | None:
    """Returns why a case cannot run here."""
    facts = machine.facts
    if not facts.get("gpu"):
        return "there is no GPU: neither PyTorch nor nvidia-smi sees one"
    for name in case.needs:
        if not facts.get(name):
            return f"no {name} here ({facts.get(name + '_error', 'not found')})"
    if way in ("backend", "wheel") and machine.python_with_wheel is None:
        return machine.why_no_wheel
    return None


def own_environment(place: Path) -> dict[str, str]:
    """Returns this process's environment without foreign settings, and with caches of compiled kernels in `place`."""
    environment = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    # Caches identify kernels by their source: another story's copy would have that story's file name.
    environment["TRITON_CACHE_DIR"] = str(place / "triton")
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(place / "inductor")
    return environment


def environment_of(case: Case, way: str, machine: Machine, place: Path) -> dict[str, str]:
    environment = own_environment(place) | case.environment
    if way in ("enable", "itself"):
        package = str(ROOT / "allocator" / "torch")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
        environment["CUFENCE_LIBRARY"] = str(machine.library)
    if way == "backend":
        settings = [f"cufence_{key}:{value}" for key, value in options_of(case).items()]
        environment["PYTORCH_CUDA_ALLOC_CONF"] = ",".join(["backend:cufence", *settings])
    return environment


def options_of(case: Case) -> dict[str, str]:
    """Returns the options. A run without a fault says at exit how much went through cufence, see problems_of_statistics()."""
    return {**case.options, "say": "verbose"} if case.status == 0 else case.options


def command_of(case: Case, way: str, machine: Machine) -> list[str]:
    story = ["-m", case.story] if case.is_module else [f"{case.story}.py"]
    arguments = [argument.replace("{nvcc}", machine.facts.get("nvcc") or "nvcc") for argument in case.arguments]
    script = [*case.launcher, *story, *arguments]
    if way == "enable":
        options = ",".join(f"{key}={value}" for key, value in options_of(case).items())
        return [sys.executable, "-u", "with_enable.py", options, *script]
    if way == "run":
        settings = [word for key, value in options_of(case).items() for word in ("--set", f"{key}={value}")]
        return [str(machine.command), "run", *settings, "--", sys.executable, "-u", *script]
    python = str(machine.python_with_wheel) if way in ("backend", "wheel") else sys.executable
    return [python, "-u", *script]


def compare(case: Case, machine: Machine, stdout: str) -> tuple[list[str], list[str]]:
    """Compares with the same story without cufence, which runs once for all ways. Returns problems and facts."""
    with _comparing:
        return _compare(case, machine, stdout)


def _compare(case: Case, machine: Machine, stdout: str) -> tuple[list[str], list[str]]:
    place = machine.folder / f"{case.name}.native"
    if not place.exists():
        shutil.copytree(STORIES, place)
        command = command_of(case, "native", machine)
        other = execute(command, environment_of(case, "native", machine, place), place, case.seconds)
        if other.status != 0:
            shutil.rmtree(place)
            return [f"without cufence it ended with status {other.status}: {other.stderr[-500:]}"], []
        (place / "stdout").write_text(other.stdout)
    expected = (place / "stdout").read_text()
    if expected != stdout:
        return [f"results differ from those without cufence: {stdout!r} and {expected!r}"], []
    return [], [f"bit-identical to the run without cufence: {stdout.split()[-1][:16]}..."]


def run_case(case: Case, way: str, machine: Machine) -> Result:
    """Runs a case, and the run to compare it with."""
    place = machine.folder / f"{case.name}.{way}"
    shutil.rmtree(place, ignore_errors=True)  # left by an earlier run
    shutil.copytree(STORIES, place, ignore=shutil.ignore_patterns("__pycache__"))
    source = (place / f"{case.story}.py").read_text()
    run = execute(command_of(case, way, machine), environment_of(case, way, machine, place), place, case.seconds)
    problems, facts = problems_of(case, run, source, place)
    if case.status == 0 and way != "itself":
        problems += problems_of_statistics(case, run)
    if case.is_as_native and not problems:
        differences, same = compare(case, machine, run.stdout)
        problems += differences
        facts += same
    detail = "; ".join(problems or facts)
    return Result(case.name, not problems, detail, run.report_seconds, run, way)
