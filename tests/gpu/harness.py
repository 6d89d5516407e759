"""Shared by the GPU tests: what a case is, how it is started in each way, and what must be true of its end.

A case is a program with one planted bug, or none. Those of the zoo (tests/zoo/zoo.py) must name in their report what their row has;
cases.py has the others. The ways are

enable    with_enable.py calls cufence.enable() and then runs the story
run       `cufence run -- python story.py`
backend   PYTORCH_CUDA_ALLOC_CONF=backend:cufence,... python story.py, in a virtual environment where the wheel is installed
itself    python story.py: the story calls cufence
wheel     python story.py in that environment, with nothing set: the story's arguments request cufence
native    python story.py without cufence, for comparison
static    `cufence run -- PROGRAM`, a plain CUDA program, with the CUDA runtime linked statically
shared    the same with the CUDA runtime as a library
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "zoo"))
from judge import CLASSES, Facts, findings_of, judge, kept_of_finding  # noqa: E402

STORIES, SOURCES, EXAMPLES = HERE / "stories", HERE / "programs", ROOT / "docs" / "examples"
BUILD = Path(os.environ.get("CUFENCE_BUILD") or ROOT / "build")
COMMAND, PROGRAMS = BUILD / "bin" / "cufence", BUILD / "bin" / "programs"
PRELOAD, PACKAGE = BUILD / "lib" / "libcufence_preload.so", ROOT / "allocator" / "torch"
RUNTIMES = ("static", "shared")
WAYS = ("enable", "run", "backend", "itself", "wheel", *RUNTIMES)
ANY_CUDA = Path("/usr/local/cuda/lib64")
FOUND = "report.json"  # the findings of a run, in its folder
_comparing = threading.Lock()  # one way of a case runs the comparison, the others wait for it

REPORT_LINE = re.compile(r"^==\d+==")
REPORT_MORE = re.compile(r"^==\d+==(\s{2,}|\s*$| SUMMARY: )")  # a line of a report behind its first
REPORT_HEAD = re.compile(
    r"^==\d+== +cufence: (out-of-bounds|use-after-free|wild-address|null-pointer|host-pointer|misaligned"
    r"|illegal memory|host (?:read|write) out|exception|double free|invalid free|first NaN|first Inf|slack WRITE|WRITE to poisoned memory|stream race|leak|stuck|unexplained)",
    re.MULTILINE,
)
FIRST_LINE = re.compile(r"^==\d+== cufence: a kernel has faulted")  # said before the dump is read
STATISTICS = re.compile(r"^cufence: (\d+) allocations?, ", re.MULTILINE)  # printed at exit with say=verbose

# Settings of the user that would change a story.
_FOREIGN = (
    "CUFENCE_OPTIONS", "CUFENCE_DRIVER", "CUFENCE_LIBRARY", "LD_PRELOAD", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUDA_LAUNCH_BLOCKING", "XLA_PYTHON_CLIENT_ALLOCATOR",
    "XLA_PYTHON_CLIENT_PREALLOCATE", "RANK", "LOCAL_RANK",
)  # fmt: skip

PROBE = """
import json, sys
facts = {"python": sys.version.split()[0]}
for name in ("torch", "triton", "jax", "cupy", "numba", "pytest"):
    try:
        module = __import__(name)
        if name == "numba":  # with some versions of numpy it compiles nothing
            __import__("numba.cuda").cuda.jit("void(float32[:])")(lambda x: None)
        facts[name] = module.__version__
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
class Case:
    """A run of a program and its expected results. Patterns are regular expressions; {MARK} is the number of the line with that mark."""

    name: str
    program: str  # NAME.py of stories/, or NAME.cu of programs/ or docs/examples/
    arguments: list[str] = field(default_factory=list)
    status: int = 1
    facts: Facts | None = None  # of the zoo's row
    named: frozenset[str] = frozenset()  # what of them the report must name
    report: list[str] = field(default_factory=list)  # patterns of the report, as text or JSON
    reports: int = 1  # how many there are, if there is one
    output: list[str] = field(default_factory=list)  # patterns of stdout
    error: list[str] = field(default_factory=list)  # patterns of stderr
    files: dict[str, list[str]] = field(default_factory=dict)  # files that the run leaves in its folder -> patterns
    raises: str | None = None  # the mark of the last line of the traceback
    options: dict[str, str] = field(default_factory=dict)  # options of cufence
    environment: dict[str, str] = field(default_factory=dict)  # further environment variables
    ways: tuple[str, ...] = ("enable", "run", "backend")
    launcher: list[str] = field(default_factory=list)  # arguments between python and the story
    is_module: bool = False  # python -m story instead of python story.py
    is_as_native: bool = False  # stdout must equal that of a run without cufence
    is_alone: bool = False  # fills the GPU's memory, or measures how much is left
    allocations: int = 1  # minimum number of allocations through cufence in a run without a fault
    needs: tuple[str, ...] = ("torch", "triton")  # modules, "nvcc", "two GPUs"
    seconds: int = 180

    @property
    def stem(self) -> str:
        return self.program.rpartition(".")[0]

    @property
    def is_python(self) -> bool:
        return self.program.endswith(".py")

    @property
    def source(self) -> Path:
        if self.is_python:
            return STORIES / self.program
        name = "code.cu" if self.program.startswith("code_") else self.program  # one source for the codes of three kinds
        return SOURCES / name if (SOURCES / name).exists() else EXAMPLES / name

    def line_of(self, mark: str) -> int:
        """The kernel of some stories is in another file."""
        texts = [path.read_text() for path in (self.source, *((STORIES / "k_oob.py", STORIES / "jax_kernel.cu") if self.is_python else ()))]
        return marked_line(next((text for text in texts if _mark(mark).search(text)), texts[0]), mark)


@dataclass
class Run:
    """The outcome of one process."""

    status: int
    stdout: str
    stderr: str
    report_seconds: float | None  # from "launch" to the last line of the report
    is_timed_out: bool = False
    first_seconds: float | None = None  # from "launch" to the line that says that a kernel has faulted

    @property
    def report(self) -> str:
        return "".join(line for line in self.stderr.splitlines(keepends=True) if REPORT_LINE.match(line))


@dataclass
class Result:
    """The result of one run of a case; ok is None if it was skipped."""

    name: str
    ok: bool | None
    detail: str
    seconds: float | None = None
    run: Run | None = None
    way: str = ""


def _stop(process: subprocess.Popen[str]) -> None:
    """Ends a story and the processes that it started: it leads its own process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def execute(command: list[str], environment: dict[str, str], folder: Path, seconds: float) -> Run:
    """Runs a process and records when the lines of its report arrive."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    errors: list[str] = []
    times: dict[str, float] = {}

    def read_errors() -> None:
        assert process.stderr is not None
        is_report = False
        with process.stderr as stream:
            for line in stream:
                errors.append(line)
                is_report = bool(REPORT_HEAD.match(line) or (is_report and REPORT_MORE.match(line)))
                if FIRST_LINE.match(line):
                    times.setdefault("first", time.time())
                if is_report:
                    times["report"] = time.time()
                elif line.startswith("launch "):
                    times["launch"] = float(line.split()[1])

    output: list[str] = []

    def read_output() -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            output.append(stream.read())

    readers = [threading.Thread(target=read_errors), threading.Thread(target=read_output)]
    for reader in readers:
        reader.start()
    is_timed_out = False
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        is_timed_out = True
        _stop(process)
        process.wait()
    for reader in readers:
        reader.join(10)

    def until(event: str) -> float | None:
        return times[event] - times["launch"] if event in times and "launch" in times else None

    return Run(process.returncode, "".join(output), "".join(errors), until("report"), is_timed_out, until("first"))


def _mark(mark: str) -> re.Pattern[str]:
    return re.compile(rf"(#|//) {re.escape(mark)}[ \t]*(:.*)?$", re.MULTILINE)


def marked_line(source: str, mark: str) -> int:
    """Returns the number of the line that ends in `# mark` or contains `# mark:`; in C++, `// mark`."""
    found = [number for number, line in enumerate(source.splitlines(), 1) if _mark(mark).search(line)]
    if len(found) != 1:
        raise ValueError(f"the mark {mark!r} stands on {len(found)} lines")
    return found[0]


# ---- what must be true of a run ----


def _read(folder: Path | None, name: str) -> str:
    path = (folder or Path()) / name
    return path.read_text(errors="replace") if path.is_file() else ""


def _missing(case: Case, patterns: list[str], text: str, where: str, facts: list[str]) -> list[str]:
    """Returns the patterns that the text lacks, and adds what the others match to `facts`."""
    problems = []
    for expected in patterns:
        pattern = re.sub(r"\{([A-Z]+(?: \w+)?)\}", lambda mark: str(case.line_of(mark.group(1))), expected)
        match = re.search(pattern, text)
        if match:
            facts.append(re.sub(r"\s+", " ", match.group(0)).strip())
        else:
            problems.append(f"{where} lacks /{pattern}/")
    return problems


def _problems_of_end(case: Case, run: Run) -> list[str]:
    if run.is_timed_out:
        return [f"did not end within {case.seconds} s"]
    return [] if run.status == case.status else [f"exit status {run.status}, expected {case.status}"]


def _problems_of_row(case: Case, run: Run, written: str, facts: list[str]) -> list[str]:
    """Whether the findings name what the zoo's row has, as the matrix judges it; of an access to memory, the kernel for certain."""
    if not case.facts:
        return []
    findings = findings_of(written)
    word, named = judge(case.facts, {"said": {"findings": [kept_of_finding(one) for one in findings]}, "status": run.status})
    facts.append(f"names {', '.join(sorted(named))}")
    problems = [f"the finding is {word} and does not name the {', '.join(sorted(case.named - named))}"] if case.named - named else []
    if "kernel" in case.named and case.status != 86 and case.facts.kind not in CLASSES:
        problems += [] if any((one.get("kernel") or {}).get("certainty") == "exact" for one in findings) else ["the kernel is not exact"]
    return problems


def problems_of(case: Case, run: Run, folder: Path | None = None) -> tuple[list[str], list[str]]:
    """Returns what is wrong with a run in `folder`, and the facts found."""
    facts: list[str] = []
    written = _read(folder, FOUND)
    problems = _problems_of_end(case, run) + _problems_of_row(case, run, written, facts)
    problems += _missing(case, case.report, f"{run.report}\n{written}", "the report", facts)
    heads, expected = len(REPORT_HEAD.findall(run.stderr)), case.reports if case.report or case.facts else 0
    if heads != expected:
        problems.append(f"{heads} reports, expected {expected}")
    problems += _missing(case, case.output, run.stdout, "stdout", facts)
    problems += _missing(case, case.error, run.stderr, "stderr", [])
    for name, patterns in case.files.items():
        text = _read(folder, name)
        problems += _missing(case, patterns, text, name, facts) if text else [f"there is no {name}, or it is empty"]
    if "not reached" in run.stdout:
        problems.append("nothing was raised where the kernel was waited for")
    if case.raises:
        line = case.line_of(case.raises)
        if not re.search(rf'File "[^"]*{case.stem}\.py", line {line}, in <module>', run.stderr):
            problems.append(f"the traceback does not name line {line}")
    return problems, facts


def problems_of_statistics(case: Case, run: Run) -> list[str]:
    """A run without a fault proves nothing unless it went through cufence: with say=verbose, its end says how much did."""
    allocations = sum(int(number) for number in STATISTICS.findall(run.stderr))
    if allocations < case.allocations:
        return [f"{allocations} allocations went through cufence, expected at least {case.allocations}"]
    return []


# ---- the machine ----


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
    machine = Machine(folder, probe(), library, COMMAND, None)
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
    if way in RUNTIMES:
        program = PROGRAMS / f"{case.stem}.{way}"
        if not program.is_file():
            return f"there is no {program.name} in the build: it had no nvcc, or only one kind of the CUDA runtime"
        if way == "shared" and not runtime_folder(program, machine):
            return f"there is no {wanted_runtime(program)}"
    return None


def wanted_runtime(program: Path) -> str | None:
    """Returns the file name of the CUDA runtime that a program is linked with."""
    found = re.search(rb"libcudart\.so\.\d+", program.read_bytes())
    return found[0].decode() if found else None


def runtime_folder(program: Path, machine: Machine) -> Path | None:
    """Returns the folder of the runtime that a program needs: the toolkit's, or that of PyTorch's packages."""
    name, nvcc = wanted_runtime(program), machine.facts.get("nvcc")
    folders = [Path(nvcc).resolve().parent.parent / "lib64"] if nvcc else []
    named = [Path(folder) for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    packages = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/*/lib"))
    return next((folder for folder in [*named, *folders, ANY_CUDA, *packages] if name and (folder / name).is_file()), None)


# ---- a run ----


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
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), environment.get("PYTHONPATH")]))
        environment["CUFENCE_LIBRARY"] = str(machine.library)
    if way == "backend":
        settings = [f"cufence_{key}:{value}" for key, value in options_of(case).items()]
        environment["PYTORCH_CUDA_ALLOC_CONF"] = ",".join(["backend:cufence", *settings])
    if way == "shared":
        folder = runtime_folder(PROGRAMS / f"{case.stem}.{way}", machine)
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(folder), environment.get("LD_LIBRARY_PATH")]))
    return environment


def options_of(case: Case) -> dict[str, str]:
    """Returns the options. A run without a fault says at exit how much went through cufence, see problems_of_statistics()."""
    found = {"json": FOUND} if case.facts or not case.is_python else {}
    return {**case.options, **found, **({"say": "verbose"} if case.status == 0 else {})}


def command_of(case: Case, way: str, machine: Machine) -> list[str]:
    settings = [word for key, value in options_of(case).items() for word in ("--set", f"{key}={value}")]
    under = [str(machine.command), "run", *settings, "--"]
    if way in RUNTIMES:
        return [*under, str(PROGRAMS / f"{case.stem}.{way}"), *case.arguments]
    story = ["-m", case.stem] if case.is_module else [case.program]
    arguments = [argument.replace("{nvcc}", machine.facts.get("nvcc") or "nvcc") for argument in case.arguments]
    script = [*case.launcher, *story, *arguments]
    if way == "enable":
        options = ",".join(f"{key}={value}" for key, value in options_of(case).items())
        return [sys.executable, "-u", "with_enable.py", options, *script]
    python = str(machine.python_with_wheel) if way in ("backend", "wheel") else sys.executable
    return [*(under if way == "run" else []), python, "-u", *script]


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
    if case.is_python:
        shutil.copytree(STORIES, place, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        place.mkdir()
    command, environment = command_of(case, way, machine), environment_of(case, way, machine, place)
    run = execute(command, environment, place, case.seconds)
    problems, facts = problems_of(case, run, place)
    if case.status == 0 and way != "itself":
        problems += problems_of_statistics(case, run)
    if case.status == 0 and problems and way in RUNTIMES:  # is it due to cufence?
        alone = execute(command[command.index("--") + 1 :], environment, place, case.seconds)
        problems.append(f"without cufence it ends with status {alone.status}, {alone.stdout.strip()[-200:]!r}")
    if case.is_as_native and not problems:
        differences, same = compare(case, machine, run.stdout)
        problems += differences
        facts += same
    detail = "; ".join(problems or facts)
    return Result(case.name, not problems, detail, run.report_seconds, run, way)
