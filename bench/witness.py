"""How long a program waits for its error, and how long the report takes, with and without a second launch.

    python3 bench/witness.py [--rounds 5] [--live 10000] [--gigabytes 60] [--cufence build/bin/cufence] [--json FILE]

A PyTorch program whose Triton kernel stores one element too far, as its last instruction, with a few buffers and with many: --live
buffers, --gigabytes in all. Each is run with explain=dump and explain=auto in turn. Printed: the median seconds from the launch to the
error in Python, and to the last line of the report. Fails if a report with the second launch lacks the thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = '''
import sys, time
import torch, triton
import triton.language as tl

@triton.jit
def k_store(y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 1.0, mask=i <= n)

live, gigabytes = int(sys.argv[1]), float(sys.argv[2])
y = torch.zeros(2048, device="cuda")
k_store[(8,)](y, 1000, BLOCK=128)
small = [torch.zeros(1000, device="cuda") for _ in range(live)]
left = int(gigabytes * 2**30) - live * 2**21
large = [torch.zeros(2**28, device="cuda") for _ in range(max(0, left) // 2**30)]
y = torch.zeros(1000, device="cuda")
torch.cuda.synchronize()
print("launch", time.time(), file=sys.stderr, flush=True)
k_store[(8,)](y, 1000, BLOCK=128)
try:
    torch.cuda.synchronize()
except RuntimeError:
    print("error", time.time(), file=sys.stderr, flush=True)
'''


def run(script: Path, options: argparse.Namespace, witness: str, live: int, gigabytes: float) -> dict[str, float]:
    """Returns the seconds from the launch to the error and to the end of the report."""
    command = [options.cufence, "run", "--set", f"explain={witness}", "--", sys.executable, script, str(live), str(gigabytes)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    times: dict[str, float] = {}
    text = ""
    for line in process.stderr:
        text += line
        if line.startswith(("launch ", "error ")):
            times[line.split()[0]] = float(line.split()[1])
        if " SUMMARY: " in line:
            times.setdefault("report", time.time())
    process.wait()
    if len(times) < 3 or (witness == "auto" and "thread (104,0,0)" not in text):
        sys.exit(f"explain={witness} live={live}: not the expected report:\n{text[-4000:]}")
    return {name: times[name] - times["launch"] for name in ("error", "report")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--live", type=int, default=10000)
    parser.add_argument("--gigabytes", type=float, default=60)
    parser.add_argument("--cufence", default=str(ROOT / "build" / "bin" / "cufence"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "store.py"
        script.write_text(PROGRAM)
        for live, gigabytes in ((0, 0.0), (options.live, options.gigabytes)):
            taken: dict[str, list[dict[str, float]]] = {"dump": [], "auto": []}
            for _ in range(options.rounds):
                for witness, runs in taken.items():
                    runs.append(run(script, options, witness, live, gigabytes))
            for witness, runs in taken.items():
                row = {"live": live, "gigabytes": gigabytes, "witness": witness} | {
                    name: statistics.median(one[name] for one in runs) for name in ("error", "report")
                }
                rows.append(row)
                print(f"{live:6} buffers, {gigabytes:4.0f} GB, explain={witness:4}  error after {row['error']:.3f} s, "
                      f"report after {row['report']:.3f} s", flush=True)  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
