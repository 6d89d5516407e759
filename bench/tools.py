"""One bug under each of the tools that people use: is it found, and what does the tool cost?

    python3 bench/tools.py [--steps 5] [--only TOOL...] [--markdown FILE]        on a GPU, about three minutes

The bug is tests/gpu/stories/triton_overrun.py: a Triton kernel that reads and writes one float past buffers of 1000. "Found" means
that the run ends with an error or says so. The cost is that of a training step (an encoder of 6 layers with AdamW), a median; the
first steps are left out. Each tool has its processes to itself, one after the other; for cufence's own figures in pairs see
bench/torch_step.py.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUG = ROOT / "tests" / "gpu" / "stories" / "triton_overrun.py"
CUFENCE = str(ROOT / "build" / "bin" / "cufence")
SANITIZER = ("compute-sanitizer", "--tool", "memcheck", "--target-processes", "all", "--error-exitcode", "9")
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}

STEPS = """
import sys, time
import torch
torch.manual_seed(1)
layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.1, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
data, target = torch.randn(16, 128, 512, device="cuda"), torch.randn(16, 128, 512, device="cuda")
for step in range(10 + int(sys.argv[1])):
    torch.cuda.synchronize()
    start = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    torch.nn.functional.mse_loss(model(data), target).backward()
    optimizer.step()
    torch.cuda.synchronize()
    if step >= 10:
        print("step", time.perf_counter() - start, flush=True)
"""


@dataclass(frozen=True)
class Tool:
    title: str
    launcher: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


TOOLS = {
    "plain": Tool("plain PyTorch"),
    "uncached": Tool("`PYTORCH_NO_CUDA_MEMORY_CACHING=1`", (), UNCACHED),
    "blocking": Tool("the same and `CUDA_LAUNCH_BLOCKING=1`", (), {**UNCACHED, "CUDA_LAUNCH_BLOCKING": "1"}),
    "memcheck": Tool("compute-sanitizer memcheck", SANITIZER),
    "padding": Tool("compute-sanitizer memcheck `--padding 64`", (*SANITIZER, "--padding", "64")),
    "memcheck_uncached": Tool("compute-sanitizer memcheck, no caching", SANITIZER, UNCACHED),
    "padding_uncached": Tool("compute-sanitizer memcheck `--padding 64`, no caching", (*SANITIZER, "--padding", "64"), UNCACHED),
    "cufence": Tool("`cufence run`", (CUFENCE, "run", "--")),
}


def run(tool: Tool, arguments: list[str], seconds: int) -> tuple[int | None, str]:
    """Returns the exit status, None after `seconds`, and the output."""
    try:
        done = subprocess.run(
            [*tool.launcher, sys.executable, *arguments],
            env={**os.environ, **tool.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def verdict(tool: Tool) -> str:
    status, said = run(tool, [str(BUG)], 300)
    if status is None:
        return "not finished in 300 s"
    if status == 0 and "not reached" in said:
        return "silent"
    reason = re.search(r"^.*(Invalid __\w+__ \w+ of size.*|SUMMARY: cufence: .*|illegal memory access.*)$", said, re.M)
    return f"found: {reason[1].strip()}" if reason else f"failed with status {status}: {said.strip().splitlines()[-1] if said.strip() else ''}"


def step_ms(tool: Tool, steps: int) -> float | None:
    status, said = run(tool, ["-c", STEPS, str(steps)], 400)
    times = [float(seconds) for seconds in re.findall(r"^step (\S+)$", said, re.M)]
    return statistics.median(times) * 1e3 if status == 0 and times else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(TOOLS), default=list(TOOLS), metavar="TOOL")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    rows = ["| set-up | the bug | ms a training step |", "|---|---|---|"]
    for name in options.only:
        tool = TOOLS[name]
        if tool.launcher and not shutil.which(tool.launcher[0]):
            rows.append(f"| {tool.title} | {tool.launcher[0]} not found | |")
        else:
            milliseconds = step_ms(tool, options.steps)
            rows.append(f"| {tool.title} | {verdict(tool)} | {f'{milliseconds:.1f}' if milliseconds else 'not finished'} |")
        print(rows[-1], flush=True)
    if options.markdown:
        options.markdown.write_text("\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
