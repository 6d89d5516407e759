"""A read of the element before the first: with side=start, the buffer is flush with the guard before it."""

from shared import launch, tl, torch, triton


@triton.jit(do_not_specialize=["shift"])
def k_before(x, y, shift, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i - shift)  # FAULT: nothing keeps i - shift from being negative
    tl.store(y + i, v)


x = torch.zeros(1024, device="cuda")
y = torch.zeros(1024, device="cuda")
k_before[(1,)](x, y, 0, BLOCK=1024)
torch.cuda.synchronize()
launch()
k_before[(1,)](x, y, 1, BLOCK=1024)
torch.cuda.synchronize()  # RAISES
print("not reached")
