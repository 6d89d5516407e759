"""Device memory that training takes, native and guarded, and the time for it.

    python3 bench/reserved_memory.py                            both models, every way below, a process each
    python3 bench/reserved_memory.py --model small --only pack

Models: `small`, 10,000 parameters of 1 to 64 KiB (--count) with gradients and Adam's state, two steps; `gpt2`, a transformer of
GPT-2's sizes (124 million parameters, 12 layers of width 768, 4 sequences of 1,024 tokens) with AdamW, three steps. The figure is the
most memory that the device has in use, after a forward pass and after a step, beyond what it had before the first tensor
(cuMemGetInfo). That also sees what no allocator counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = (str(ROOT / "build" / "bin" / "cufence"), "run")
WAYS = {
    "native": (),
    "auto": (*RUN, "--"),
    "pack": (*RUN, "--set", "small=pack", "--"),
    "map": (*RUN, "--set", "small=map", "--"),
}


def small(torch, count):
    """Returns the forward pass, which gives the loss, and its optimizer."""
    parameters = [torch.nn.Parameter(torch.randn(256 + i * 7919 % 16128, device="cuda")) for i in range(count)]
    optimizer = torch.optim.Adam(parameters, foreach=False)
    return lambda: sum((parameter * parameter).mean() for parameter in parameters), optimizer


def gpt2(torch, _count):
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
    blocks = torch.nn.TransformerEncoder(layer, 12, torch.nn.LayerNorm(768), enable_nested_tensor=False).cuda()
    words, positions = torch.nn.Embedding(50257, 768).cuda(), torch.nn.Embedding(1024, 768).cuda()
    tokens = torch.randint(50257, (4, 1024), device="cuda")
    places = torch.arange(1024, device="cuda")
    mask = torch.nn.Transformer.generate_square_subsequent_mask(1024, device="cuda")
    optimizer = torch.optim.AdamW([*blocks.parameters(), *words.parameters(), *positions.parameters()], lr=1e-4)

    def forward():
        hidden = blocks(words(tokens) + positions(places), mask=mask, is_causal=True)
        logits = hidden @ words.weight.T  # the output layer shares the words' weights
        return torch.nn.functional.cross_entropy(logits.view(-1, 50257), tokens.view(-1))

    return forward, optimizer


MODELS = {"small": (small, 2), "gpt2": (gpt2, 3)}  # and steps


def measure(model: str, count: int) -> None:
    import time

    import torch

    def used() -> int:
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return total - free

    torch.zeros(1, device="cuda")
    before, began, most = used(), time.perf_counter(), 0
    build, steps = MODELS[model]
    forward, optimizer = build(torch, count)
    for _ in range(steps):
        loss = forward()
        most = max(most, used() - before)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        most = max(most, used() - before)
    print("figures " + json.dumps({"bytes": most, "seconds": round(time.perf_counter() - began, 2)}), flush=True)


def run(model: str, way: str, count: int) -> dict[str, float] | None:
    command = [*WAYS[way], sys.executable, __file__, "--measure", model, "--count", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=dict(os.environ), check=False, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("figures ")]
    return json.loads(lines[0].split(" ", 1)[1]) if lines and done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", choices=MODELS, help="these models; both without it")
    parser.add_argument("--only", action="append", choices=WAYS, help="these ways, besides native")
    parser.add_argument("--count", type=int, default=10000, help="parameters of `small`")
    parser.add_argument("--measure", choices=MODELS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.count)
        return
    print(f"{'model':6} {'way':8} {'device memory':>14} {'of native':>10} {'seconds':>8}")
    for model in arguments.model or MODELS:
        native = run(model, "native", arguments.count)
        if native is None:
            raise SystemExit(f"the native run of {model} has failed")
        for way in ["native", *[way for way in WAYS if way != "native" and way in (arguments.only or WAYS)]]:
            figures = native if way == "native" else run(model, way, arguments.count)
            if figures is None:
                print(f"{model:6} {way:8} failed")
                continue
            print(f"{model:6} {way:8} {figures['bytes'] / 2**20:10.0f} MiB {figures['bytes'] / native['bytes']:10.2f} {figures['seconds']:8.2f}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
