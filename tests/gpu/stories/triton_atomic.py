"""An atomic addition one element past the end."""

from shared import launch, tl, torch, triton


@triton.jit
def k_atomic(y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + i, 1.0, mask=i <= n)  # FAULT: i < n would be right


y = torch.zeros(1000, device="cuda")
k_atomic[(8,)](y, 999, BLOCK=128)
torch.cuda.synchronize()
launch()
k_atomic[(8,)](y, 1000, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
