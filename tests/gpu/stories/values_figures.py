"""Figures that cufence makes of tensors of each type equal PyTorch's own. Run with values=k_*=values.json: the types
are those that Triton knows."""

import json
import math
import sys
import time
from pathlib import Path

import torch
import triton

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
if torch.cuda.get_device_capability() >= (8, 9):
    TYPES += [torch.float8_e4m3fn, torch.float8_e5m2]
KERNEL = """
@triton.jit
def k_{name}(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)
"""
SIZES = [1, 2, 7, 1000, 100_003, 3_000_001]


def number(value):
    return float(value) if not isinstance(value, str) else float(value.replace("Infinity", "inf"))


def wanted(tensor):
    """What PyTorch says of it."""
    wide = tensor.double()
    finite = wide[torch.isfinite(wide)]
    figures = {"count": tensor.numel(), "finite": finite.numel(), "zeros": int((wide == 0).sum()), "nan": int(wide.isnan().sum()),
               "inf": int(wide.isinf().sum())}  # fmt: skip
    if finite.numel():
        figures |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean()),
                    "std": float(finite.std(correction=0))}  # fmt: skip
    return figures


def make(kind, size, offset):
    if kind.is_floating_point:
        made = torch.randn(size + offset, device="cuda", dtype=torch.float64) * 30 + 5
        if size >= 1000:
            made[size // 2] = float("nan")
            made[size // 3] = float("-inf")
            made[size // 5 : size // 5 + 9] = 0
        made = made.to(kind)
    else:
        limits = torch.iinfo(kind)
        low, high = max(limits.min, -(2**40)), min(limits.max, 2**40)
        made = torch.randint(low, high, (size + offset,), device="cuda", dtype=kind)
    return made[offset:]


def name_of(kind):
    return str(kind).removeprefix("torch.")


# A kernel for each type. Triton wants the source in a file.
source = "import triton\nimport triton.language as tl\n" + "".join(KERNEL.format(name=name_of(kind)) for kind in TYPES)
Path("kernels_of_types.py").write_text(source)
sys.path.insert(0, ".")
import kernels_of_types  # noqa: E402

expected = []
for kind in TYPES:
    for size in SIZES:
        for offset in (0, 1, 3):
            tensor = make(kind, size, offset)
            copy = torch.empty_like(tensor)
            expected.append((kind, size, offset, wanted(tensor), tensor.flatten()[:4].double().tolist()))
            getattr(kernels_of_types, "k_" + name_of(kind))[(triton.cdiv(size, 1024),)](tensor, copy, size, BLOCK=1024)
torch.cuda.synchronize()
for _ in range(300):  # until cufence's thread has written all of them
    lines = Path("values.json").read_text().splitlines() if Path("values.json").exists() else []
    if len(lines) >= len(expected):
        break
    time.sleep(0.1)
assert len(lines) == len(expected), (len(lines), len(expected))
for line, (kind, size, offset, figures, first) in zip(lines, expected, strict=True):
    pointers = json.loads(line)["pointers"]
    assert len(pointers) == 2, line
    for pointer in pointers:
        found = pointer["after"]
        where = (name_of(kind), size, offset, pointer["argument"], found, figures)
        assert (pointer["type"], pointer["type_from"]) == (name_of(kind), "signature"), pointer
        for key in ("count", "finite", "zeros", "nan", "inf"):
            assert found[key] == figures[key], (key, where)
        for key in ("min", "max", "mean", "std"):
            if key in figures:
                close = math.isclose(number(found[key]), figures[key], rel_tol=1e-9, abs_tol=1e-9 * max(1, abs(figures["max"])))
                assert close, (key, where)
        for one, other in zip(found["first"], first):
            assert number(one) == other or (math.isnan(number(one)) and math.isnan(other)), where
print("all types agree")
