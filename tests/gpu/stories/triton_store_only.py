"""A kernel whose last instruction is the faulting store: its warp may have exited when the dump is taken."""

from shared import launch, tl, torch, triton


@triton.jit
def k_store(y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 1.0, mask=i <= n)  # FAULT: i < n would be right


y = torch.zeros(1000, device="cuda")
k_store[(8,)](y, 999, BLOCK=128)
torch.cuda.synchronize()
launch()
k_store[(8,)](y, 1000, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
