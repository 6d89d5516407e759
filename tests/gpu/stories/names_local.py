"""The buffer is a local variable of a function that the exception comes through, which asks for the report's names."""

import sys
import time

import cufence
import torch
import triton
import triton.language as tl


@triton.jit
def k_oob(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= n  # the bug: i < n would be right
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v + 1.0, mask=inside)


def step(n):
    batch = {"ids": torch.zeros(1000, device="cuda")}
    result = torch.zeros(1024, device="cuda")
    k_oob[(8,)](batch["ids"], result, n, BLOCK=128)
    torch.cuda.synchronize()  # RAISES


step(999)
print("launch", time.time(), file=sys.stderr, flush=True)
try:
    step(1000)
except RuntimeError:
    report = cufence.last_report()
    tensor = report["names"]["buffers"][0]["tensors"][0]
    assert tensor["dtype"] == "float32" and tensor["shape"] == [1000] and tensor["index"] == [1000], tensor
    names = {argument["name"]: argument for argument in report["names"]["arguments"]}
    assert names["x"]["buffer"] == report["buffer"]["id"] and names["n"]["value"] == "1000", names
    assert report["names"]["constexprs"]["BLOCK"] == "128", report["names"]
    print("named", flush=True)
    raise
