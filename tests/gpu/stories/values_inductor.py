"""The pointers of Inductor's kernels have the types of their signatures. Run with values=triton_*=values.json."""

import json
import time
from pathlib import Path

import torch

WANTED = {"float32", "bfloat16", "int64"}


@torch.compile
def model(x, index, y):
    return torch.relu(x[index] * 2 + y.float()), (y * 3).to(torch.bfloat16)


x = torch.rand(1000, device="cuda")
index = torch.randint(0, 1000, (1000,), device="cuda")
y = torch.rand(1000, device="cuda").to(torch.bfloat16)
model(x, index, y)
torch.cuda.synchronize()
found = []
for _ in range(300):  # until cufence's thread has written them
    text = Path("values.json").read_text() if Path("values.json").exists() else ""
    found = [pointer for line in text.splitlines() for pointer in json.loads(line).get("pointers", [])]
    if {pointer["type"] for pointer in found} >= WANTED:
        break
    time.sleep(0.1)
assert {pointer["type"] for pointer in found} == WANTED, found
assert all(pointer["type_from"] == "signature" for pointer in found), found
print("all types are signatures")
