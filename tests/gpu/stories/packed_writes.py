"""Kernels write one byte beyond small tensors that share a page with others; cufence.check() finds each, and nothing else."""

from shared import tl, torch, triton

import cufence


@triton.jit
def k_put(x, at, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + at + i, 65, mask=i < 1)


tensors = [torch.zeros(1000, dtype=torch.int8, device="cuda") for _ in range(12)]  # the first has a page of its own
shared = tensors[-1]
k_put[(1,)](shared, 0, BLOCK=32)
k_put[(1,)](shared, 999, BLOCK=32)
print("packed:", cufence.stats()["packed_buffers"] >= 10)
print("clean:", cufence.check() == 0)
k_put[(1,)](shared, -1, BLOCK=32)  # the bug: one too early
print("in front:", cufence.check() == 1)
k_put[(1,)](shared, 1000, BLOCK=32)  # the bug: one too far
print("behind:", cufence.check() == 1)
print("neighbours:", all(int(tensor.sum()) == 0 for tensor in tensors[:-1]))
side = torch.cuda.Stream()
for step in range(400):  # buffers of many sizes come and go, on two streams
    with torch.cuda.stream(side if step % 3 == 0 else torch.cuda.current_stream()):
        x = torch.full((1 + step * 37 % 4000,), float(step), device="cuda")
        assert float((x * 2 + 1).sum()) == x.numel() * (2 * step + 1), step
print("still clean:", cufence.check() == 0)
