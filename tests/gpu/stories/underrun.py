"""A read of the element before the first: with side=start, the buffer is flush with the guard before it."""

import sys
import time

import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["shift"])
def k_before(x, y, shift, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i - shift)  # FAULT: nothing keeps i - shift from being negative
    tl.store(y + i, v)


x = torch.zeros(1024, device="cuda")
y = torch.zeros(1024, device="cuda")
k_before[(1,)](x, y, 0, BLOCK=1024)
torch.cuda.synchronize()
print("launch", time.time(), file=sys.stderr, flush=True)
k_before[(1,)](x, y, 1, BLOCK=1024)
torch.cuda.synchronize()  # RAISES
print("not reached")
