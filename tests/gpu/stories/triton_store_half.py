"""The same as triton_store_only.py with two bytes: the faulting store is the kernel's last instruction."""

from shared import launch, tl, torch, triton


@triton.jit
def k_store_half(y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 1.5, mask=i <= n)  # FAULT: i < n would be right


y = torch.zeros(1000, device="cuda", dtype=torch.float16)
k_store_half[(8,)](y, 999, BLOCK=128)
torch.cuda.synchronize()
launch()
k_store_half[(8,)](y, 1000, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
