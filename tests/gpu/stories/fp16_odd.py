"""1001 halves, 2002 bytes: with align=auto the end is flush to the byte, with align=16 the overrun would land in slack."""

from shared import launch, tl, torch, triton


@triton.jit
def k_half(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= n  # the bug: i < n would be right
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v, mask=inside)


x = torch.zeros(1001, device="cuda", dtype=torch.float16)
y = torch.zeros(1001, device="cuda", dtype=torch.float16)
k_half[(8,)](x, y, 1000, BLOCK=128)
torch.cuda.synchronize()
launch()
k_half[(8,)](x, y, 1001, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
