"""Started like a Jupyter kernel: `python -m MODULE -f FILE`. The arguments arrive, and the overrun is caught."""

import sys

from shared import launch, tl, torch, triton


@triton.jit
def k_oob(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= n  # the bug: i < n would be right
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v + 1.0, mask=inside)


print(__name__, __spec__.name, sys.argv[1:], flush=True)
x = torch.zeros(1000, device="cuda")
y = torch.zeros(1000, device="cuda")
k_oob[(8,)](x, y, 999, BLOCK=128)
torch.cuda.synchronize()
launch()
k_oob[(8,)](x, y, 1000, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
