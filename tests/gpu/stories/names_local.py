"""The buffer is in a local variable of a function that the exception comes through."""

from shared import launch, tl, torch, triton


@triton.jit
def k_oob(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= n  # the bug: i < n would be right
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v + 1.0, mask=inside)


def step(n):
    batch = {"ids": torch.zeros(1000, device="cuda")}
    result = torch.zeros(1024, device="cuda")
    k_oob[(8,)](batch["ids"], result, n, BLOCK=128)
    torch.cuda.synchronize()


step(999)
launch()
step(1000)  # RAISES
print("not reached")
