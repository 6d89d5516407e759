"""A buffer of 3.5 MiB, which fills its second 2 MiB page only in part: its end is still flush."""

from shared import launch, tl, torch, triton

COUNT = 3584 * 1024 // 4


@triton.jit(do_not_specialize=["n"])
def k_big(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= n  # the bug: i < n would be right
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v + 1.0, mask=inside)


x = torch.zeros(COUNT, device="cuda")
y = torch.zeros(COUNT, device="cuda")
grid = (triton.cdiv(COUNT + 1, 128),)
k_big[grid](x, y, COUNT - 1, BLOCK=128)
torch.cuda.synchronize()
launch()
k_big[grid](x, y, COUNT, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
