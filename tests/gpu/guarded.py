"""What each way in says at its end: what was guarded, or that nothing was, and why. And the exit statuses that follow.

Usage and exit status are as in script.py; python3 has PyTorch, and pytest for two cases. Those of backend:cufence need a wheel in
build/wheel: only an installed one has the start-up hook.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from harness import BUILD, COMMAND, PACKAGE, install_wheel
from script import judge_by, run_script

TENSOR = "import torch; torch.ones(1000, device='cuda').sum().item()"
PROBE = "import torch; torch.cuda.is_available()"
WHICH = """
import torch
print("class:", next(line.split()[-1] for line in open("/proc/self/maps") if "libcufence-torch" in line))
try:
    torch.empty(1 << 44, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    print("out of memory is raised")
"""
WORKERS = """
import multiprocessing, torch

def work(ready):
    torch.ones(1000, device="cuda").sum().item()
    ready.set()
    multiprocessing.Event().wait()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=work, args=(ready,))
    process.start()
    assert ready.wait(200)
    process.terminate()
    process.join()
"""
TESTS = """
import torch

def test_it():
    assert torch.ones(1000, device="cuda").sum().item() == 1000
"""

GUARDED = r"cufence: no faults; [\d,]+ allocations? guarded"
NOTHING = "NOTHING WAS GUARDED: "


def play(words: list[str], wanted: int, *facts: str, absent: str = "", **variables: str) -> str:
    """Returns what is wrong with the exit status and with what is printed."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("workers.py", WORKERS), ("test_it.py", TESTS)):
            (Path(folder) / name).write_text(text)
        library = str(COMMAND.parents[1] / "lib" / "libcufence.so")
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "CUFENCE_LIBRARY": library, **variables}
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    said = done.stderr + done.stdout
    wrong = [f"missing: {fact}" for fact in facts if not re.search(fact, said)]
    if done.returncode != wanted:
        wrong.append(f"status {done.returncode}, not {wanted}")
    if absent and absent in said:
        wrong.append(f"said: {absent}")
    return "\n".join([*wrong, said]) if wrong else ""


@functools.cache
def python_with_wheel() -> str:
    """That of a virtual environment where the wheel is installed; what is missing, if there is none."""
    wheels = sorted((BUILD / "wheel").glob("*.whl"))
    if not wheels:
        return "build/wheel/*.whl"
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        return str(install_wheel(wheels[-1], Path(folder) / "venv"))
    except subprocess.CalledProcessError as error:
        return f"pip that installs a wheel ({error})"


def play_backend(code: str, *facts: str, absent: str = "", **variables: str) -> str:
    none = {"PYTHONPATH": "", "CUFENCE_LIBRARY": "", **variables}
    return play([python_with_wheel(), "-c", code], 0, *facts, absent=absent, PYTORCH_CUDA_ALLOC_CONF="backend:cufence", **none)


def python(code: str, *options: str) -> list[str]:
    return [str(COMMAND), "run", *options, "--", sys.executable, "-c", code]


def features(script: str, *words: str) -> str:
    """What PyTorch asks of its allocator: a script of unittest's."""
    how = [] if words else ["--enable"]
    return play([*words, sys.executable, str(Path(__file__).with_name(script)), *how], 0, r"\nOK", "no faults; .* PyTorch's allocator: cufence")


REQUIRED = "--require-guarded"
PYTEST = [sys.executable, "-m", "pytest", "-p", "cufence.pytest_plugin", "--cufence", "test_it.py"]
HUNT = [str(COMMAND), "hunt", "--modes", "end,start", "--", sys.executable, "-c"]

CASES: list[tuple[str, Callable[[], str]]] = [
    ("tensor", lambda: play(python(TENSOR, REQUIRED), 0, GUARDED, absent=NOTHING)),
    ("child", lambda: play([str(COMMAND), "run", "--", "sh", "-c", f'{sys.executable} -c "{TENSOR}"; true'], 0, GUARDED,
                           absent=NOTHING)),
    ("no_cuda", lambda: play(python("pass", REQUIRED), 87, NOTHING + "no process used CUDA;")),
    ("only_asks", lambda: play(python(PROBE, REQUIRED), 87, NOTHING)),
    ("no_device", lambda: play(python(PROBE, REQUIRED), 87, NOTHING, CUDA_VISIBLE_DEVICES="")),
    ("small", lambda: play(python(TENSOR, REQUIRED, "--skip", "smaller:1G"), 87, NOTHING + "every allocation was left",
                           "smaller than skip=smaller")),
    ("quiet", lambda: play(python(TENSOR, REQUIRED, "--say", "quiet"), 0, absent="cufence: ")),
    ("killed_worker", lambda: play([str(COMMAND), "run", REQUIRED, "--", sys.executable, "workers.py"], 87,
                                   "1 process used CUDA without saying at the end what was guarded", absent=NOTHING)),
    ("enable", lambda: play([sys.executable, "-c", f"import cufence; cufence.enable(); {TENSOR}"], 0, GUARDED)),
    ("enable_unused", lambda: play([sys.executable, "-c", "import cufence; cufence.enable()"], 0,
                                   NOTHING + "this process created no CUDA context")),
    ("torch_allocator", lambda: features("torch_allocator.py", str(COMMAND), "run", "--")),
    ("torch_allocator_enable", lambda: features("torch_allocator.py")),
    ("torch_graphs", lambda: features("torch_graphs.py", str(COMMAND), "run", "--")),
    ("torch_graphs_enable", lambda: features("torch_graphs.py")),
    ("pytest", lambda: play(PYTEST, 0, "cufence: GPU memory was guarded in 1 of 1 process that used CUDA")),
    ("pytest_left", lambda: play([*PYTEST, "--cufence-options", "skip=smaller:1G"], 87, NOTHING + "every allocation was left")),
    ("hunt", lambda: play([*HUNT, TENSOR], 0, "nothing found in 2 runs\nEach process that ")),
    ("hunt_no_cuda", lambda: play([*HUNT, "pass"], 87, "Inconclusive: nothing was guarded in end, start")),
]

INSTALLED: list[tuple[str, Callable[[], str]]] = [
    ("backend", lambda: play_backend("import torch", NOTHING + "no process used CUDA")),
    ("backend_tensor", lambda: play_backend(TENSOR, GUARDED, absent=NOTHING)),
    # A wheel made without PyTorch's headers fails here: python3 cmake/torch_headers.py fetches them.
    ("backend_class", lambda: play_backend(f"{TENSOR}\n{WHICH}", r"class: \S+/lib/torch/libcufence-torch-2\.\d+\.so", "out of memory is raised", GUARDED)),
    ("backend_without_torch", lambda: play_backend("pass", absent="cufence: ")),
]


if __name__ == "__main__":
    cases = {name: (sys.executable, play) for name, play in CASES} | {name: (python_with_wheel, play) for name, play in INSTALLED}
    sys.exit(run_script(__doc__, "guarded", cases, judge_by(cases)))
