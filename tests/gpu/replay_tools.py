"""Replays one bundle plainly, and under compute-sanitizer and cuda-gdb, and says how each went.

    python3 tests/gpu/replay_tools.py [--build build] [--show] [KIND...]

Each KIND is one of programs/rerun.cu: store_4, pinned and graph if none is given. A tool that is not installed is skipped.
Exit status: 1 if the plain replay of a bundle does not fault, or if a tool that is there does not see the fault.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120
TOOLS = {
    "compute-sanitizer": ("compute-sanitizer", r"Invalid __global__ (write|atomic|read) of size"),
    "compute-sanitizer, without leak and host checks": (
        "compute-sanitizer --tool memcheck --check-api-memory-access no --check-device-heap no --report-api-errors no",
        r"Invalid __global__ (write|atomic|read) of size",
    ),
    "cuda-gdb": ("cuda-gdb -batch -ex run -ex bt", r"CUDA_EXCEPTION|CUDA Exception"),
}


def run(command: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def find_tool(name: str) -> bool:
    return shutil.which(name.split()[0]) is not None


def save(cufence: Path, program: Path, kind: str, folder: str) -> tuple[list[Path], str]:
    """Returns the bundles that the program's fault left, and what it said."""
    _, text = run([str(cufence), "run", "--set", f"keep=replay={folder}", "--", str(program), kind])
    return sorted(Path(folder).glob("fault-*")), text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=["store_4", "pinned", "graph"], metavar="KIND")
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--show", action="store_true", help="print what each run said")
    options = parser.parse_args()
    cufence = options.build / "bin" / "cufence"
    program = options.build / "bin" / "programs" / "rerun.static"
    failed = 0
    for kind in options.kinds:
        with tempfile.TemporaryDirectory() as folder:
            bundles, text = save(cufence, program, kind, folder)
            if not bundles:
                print(f"{kind}: no bundle\n{text}")
                failed = 1
                continue
            status, text = run([str(cufence), "replay", str(bundles[0])])
            print(f"{kind}: plain: status {status}, {'faulted' if status == 86 else 'NOT FAULTED'}")
            failed |= status != 86
            for name, (tool, pattern) in TOOLS.items():
                if not find_tool(tool):
                    print(f"{kind}: {name}: not installed")
                    continue
                status, text = run([str(cufence), "replay", "--under", tool, str(bundles[0])])
                is_seen = re.search(pattern, text) is not None
                reason = re.search(r"cannot be launched: .*|.* ended before the launch", text)
                quiet = re.search(r"the launch did not fault|the launch failed: .*|the process ended in the launch", text)
                said = "sees the fault" if is_seen else f"DOES NOT LAUNCH: {reason[0]}" if reason else "says nothing of the fault"
                said += f" ({quiet[0]})" if quiet else ""
                print(f"{kind}: {name}: status {status}, {said}")
                failed |= not is_seen
                if options.show or not is_seen:
                    print("    " + "\n    ".join(text.splitlines()[-30:]))
    return failed


if __name__ == "__main__":
    sys.exit(main())
