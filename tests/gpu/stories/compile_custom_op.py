"""An overrun in a custom Triton op inside a compiled model. Argument: custom_op (opaque to the compiler) or triton_op."""

import sys

from shared import launch, tl, torch, triton


@triton.jit
def k_oob(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= n  # the bug: i < n would be right
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v + 1.0, mask=inside)


if sys.argv[1] == "custom_op":

    @torch.library.custom_op("story::add_one", mutates_args=())
    def add_one(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        k_oob[(8,)](x, y, x.numel(), BLOCK=128)
        return y

    @add_one.register_fake
    def _(x):
        return torch.empty_like(x)
else:

    @torch.library.triton_op("story::add_one", mutates_args=())
    def add_one(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        torch.library.wrap_triton(k_oob)[(8,)](x, y, x.numel(), BLOCK=128)
        return y


model = torch.compile(lambda x: add_one(torch.sin(x)) * 2)
for size in (1024, 2048, 2047):  # the grid has no elements beyond 1024; everything is compiled for any size, also for odd ones
    assert float(model(torch.zeros(size, device="cuda"))[5]) == 2.0
x = torch.zeros(1000, device="cuda")
torch.cuda.synchronize()
launch()
y = model(x)
torch.cuda.synchronize()  # RAISES
print("not reached")
