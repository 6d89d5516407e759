"""What cufence adds to a short program from its start to its end: import torch, first kernel, ten steps, exit.

    python3 bench/startup.py [--pairs 10] [--cufence build/bin/cufence] [--python python3] [--json FILE]

Two programs, each natively and under `cufence run` in turn: one that imports torch and ends, and one that goes on to a first kernel
and ten training steps. Printed: the median of each stage's seconds, native and guarded, and the median and quartiles of the ratios of
the pairs. Fails where the median ratio of the import is above --import-limit, or that of the whole program above --whole-limit.

Without PyTorch or without a GPU a stand-in is timed, on the simulated device: a program that starts CUDA and then loads a library
with as many static objects and symbols as PyTorch's have.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ROOT / "build" / "tests" / "libcuda"  # the simulated device as libcuda.so.1, for the stand-in
STATIC_OBJECTS, SYMBOLS = 200_000, 20_000

# Each says on its last line at what times its stages had ended; the start and the end are the parent's to see.
TORCH_IMPORT = """
import json, time
ends = [time.time()]
import torch
ends.append(time.time())
print(json.dumps(ends), flush=True)
"""
TORCH_WHOLE = """
import json, time
ends = [time.time()]
import torch
ends.append(time.time())
x = torch.ones(1 << 20, device="cuda")
assert (x * 2).sum().item() == 2 << 20
ends.append(time.time())
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(512, 1024, device="cuda")
for _ in range(10):
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
ends.append(time.time())
print(json.dumps(ends), flush=True)
"""
STANDIN = """
import ctypes, json, os, time
ends = [time.time()]
driver = ctypes.CDLL("libcuda.so.1")
assert driver.cuInit(0) == 0
ends.append(time.time())
ctypes.CDLL(os.environ["STANDIN_LIBRARY"])
ends.append(time.time())
print(json.dumps(ends), flush=True)
"""
HAS_TORCH = "import torch; assert torch.cuda.is_available()"

# What of the caller's environment would change either program.
UNWANTED = ("CUFENCE_", "PYTORCH_", "LD_PRELOAD", "CUDA_ENABLE_COREDUMP", "CUDA_COREDUMP")


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)} | more


def build_standin(folder: Path) -> Path:
    """A library of which dladdr() has as much to search as of libtorch."""
    source, library = folder / "standin.c", folder / "libstandin.so"
    functions = "\n".join(f"void standin_function_with_a_long_name_{i}(void) {{}}" for i in range(SYMBOLS))
    source.write_text(
        f"{functions}\n"
        "extern int __cxa_atexit(void (*)(void *), void *, void *);\n"
        "extern void *__dso_handle;\n"
        "static void destroy(void *object) { (void)object; }\n"
        "__attribute__((constructor)) static void load(void)\n"
        f"{{ for (int i = 0; i < {STATIC_OBJECTS}; i++) __cxa_atexit(destroy, 0, &__dso_handle); }}\n"
    )
    compiler = next(name for name in ("cc", "gcc", "clang") if shutil.which(name))
    subprocess.run([compiler, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


def run_once(command: list[str], variables: dict[str, str]) -> list[float]:
    """Seconds of each stage, the interpreter's start first and the exit last, and of all."""
    begin = time.time()
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=False)
    end = time.time()
    if done.returncode != 0:
        sys.exit(f"bench/startup.py: {' '.join(command[:-1])} ended with {done.returncode}")
    marks = [begin, *json.loads(done.stdout.splitlines()[-1]), end]
    return [after - before for before, after in zip(marks, marks[1:], strict=False)] + [end - begin]


def quartiles(values: list[float]) -> tuple[float, float, float]:
    lower, middle, upper = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
    return lower, middle, upper


def measure(
    name: str, code: str, stages: list[str], arguments: argparse.Namespace, variables: dict[str, str]
) -> dict[str, dict[str, float]]:
    plain = [arguments.python, "-c", code]
    guarded = [arguments.cufence, "run", "--", *plain]
    for command in (plain, guarded):  # file caches
        run_once(command, variables)
    pairs = []
    for index in range(arguments.pairs):
        order = (plain, guarded) if index % 2 == 0 else (guarded, plain)
        first, second = (run_once(command, variables) for command in order)
        pairs.append((first, second) if index % 2 == 0 else (second, first))
    print(f"\n{name}: {arguments.pairs} pairs\n{'':14}{'native':>10}{'guarded':>10}{'ratio':>9}  quartiles")
    found = {}
    for index, stage in enumerate(["start", *stages, "exit", "whole"]):
        native, under = ([pair[side][index] for pair in pairs] for side in (0, 1))
        lower, middle, upper = quartiles([after / before for before, after in zip(native, under, strict=True)])
        found[stage] = {
            "native_s": statistics.median(native),
            "guarded_s": statistics.median(under),
            "ratio": middle,
            "lower": lower,
            "upper": upper,
        }
        print(
            f"{stage:14}{found[stage]['native_s']:9.3f}s{found[stage]['guarded_s']:9.3f}s{middle:9.3f}  {lower:.3f} {upper:.3f}"
        )
    return found


def check(what: str, ratio: float, limit: float) -> bool:
    is_good = ratio <= limit
    print(f"{what}: {ratio:.3f}, limit {limit}: {'good' if is_good else 'ABOVE THE LIMIT'}")
    return is_good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--cufence", default=str(ROOT / "build" / "bin" / "cufence"))
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch")
    parser.add_argument("--import-limit", type=float, default=1.02)
    parser.add_argument("--whole-limit", type=float, default=1.05)
    parser.add_argument("--standin", action="store_true", help="time the stand-in, PyTorch or not")
    parser.add_argument("--json", type=Path, help="the figures, for another program")
    arguments = parser.parse_args()
    if not Path(arguments.cufence).is_file():
        sys.exit(f"bench/startup.py: {arguments.cufence} is missing: build first, or name the command with --cufence")
    asked = subprocess.run([arguments.python, "-c", HAS_TORCH], env=environment(), capture_output=True, check=False)
    if asked.returncode == 0 and not arguments.standin:
        imported = measure("import torch", TORCH_IMPORT, ["import"], arguments, environment())
        stages = ["import", "first kernel", "ten steps"]
        whole = measure("a whole short program", TORCH_WHOLE, stages, arguments, environment())
        found = {"import": imported, "whole": whole}
        print()
        verdicts = [
            check("import torch", imported["import"]["ratio"], arguments.import_limit),
            check("the program that only imports it", imported["whole"]["ratio"], arguments.whole_limit),
            check("the whole short program", whole["whole"]["ratio"], arguments.whole_limit),
        ]
    else:
        print("No PyTorch with a GPU here: a stand-in, on the simulated device.", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            variables = environment(LD_LIBRARY_PATH=str(LIBRARIES), STANDIN_LIBRARY=str(build_standin(Path(folder))))
            standin = measure("a stand-in", STANDIN, ["cuInit", "library"], arguments, variables)
        found, verdicts = {"standin": standin}, [True]
        each = (standin["library"]["guarded_s"] - standin["library"]["native_s"]) / STATIC_OBJECTS
        print(f"\n{STATIC_OBJECTS} static objects: {each * 1e9:+.0f} ns each")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))
    sys.exit(0 if all(verdicts) else 1)


if __name__ == "__main__":
    main()
