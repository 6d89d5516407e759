"""Kernels write in front of a tensor and into its slack, where the hardware sees nothing; cufence.check() finds both."""

from shared import tl, torch, triton

import cufence


@triton.jit
def k_before(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i - 1, i.to(tl.float32))  # the bug: one too early


@triton.jit
def k_tail(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 65, mask=i <= n)  # the bug: i < n would be right


floats = torch.zeros(1024, device="cuda")
small = torch.zeros(1000, dtype=torch.int8, device="cuda")
k_tail[(1,)](small, 999, BLOCK=1024)
print("clean:", cufence.check() == 0)
k_before[(1,)](floats, BLOCK=1024)
print("in front:", cufence.check() == 1)
k_tail[(1,)](small, 1000, BLOCK=1024)
print("behind:", cufence.check() == 1)
for step in range(200):  # buffers of many sizes come and go
    x = torch.randn(1 + step * 37 % 4000, device="cuda")
    (x * 2 + 1).sum()
print("still clean:", cufence.check() == 0)
