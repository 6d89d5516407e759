"""A tensor descriptor for Triton's TMA: `right` has the tensor's shape, `large` has twice its rows, which are then read."""

import sys
import time

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

ROWS, COLUMNS, BOX = 256, 64, 16
how = sys.argv[1]


@triton.jit
def copy_rows(descriptor, out, BOX: tl.constexpr, COLUMNS: tl.constexpr):
    first = tl.program_id(0) * BOX
    rows = descriptor.load([first, 0])  # FAULT
    at = (first + tl.arange(0, BOX)[:, None]) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, rows)


rows = ROWS if how == "right" else 2 * ROWS
values = torch.randn(ROWS, COLUMNS, device="cuda")
out = torch.empty(rows, COLUMNS, device="cuda")
descriptor = TensorDescriptor(values, [rows, COLUMNS], [COLUMNS, 1], [BOX, COLUMNS])
print("launch", time.time(), flush=True)
copy_rows[(rows // BOX,)](descriptor, out, BOX, COLUMNS)
torch.cuda.synchronize()  # RAISES
assert torch.equal(values, out)
print("equal")
