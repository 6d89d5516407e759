"""The program ends right after the faulty launch: the report is still printed, and the exit status shows the fault."""

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
