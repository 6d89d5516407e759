"""The bug that common tools miss: a Triton kernel reads and writes element 1000 of buffers of 1000 floats."""

from shared import launch, tl, torch, triton


@triton.jit
def k_oob(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= n  # the bug: i < n would be right
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v + 1.0, mask=inside)


x = torch.zeros(1000, device="cuda")
y = torch.zeros(1000, device="cuda")
k_oob[(8,)](x, y, 999, BLOCK=128)
torch.cuda.synchronize()
launch()
k_oob[(8,)](x, y, 1000, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
