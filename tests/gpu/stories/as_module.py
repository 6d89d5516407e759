"""Started like a Jupyter kernel: `python -m MODULE -f FILE`. The arguments arrive, and the overrun is caught."""

import sys

from k_oob import k_oob
from shared import launch, torch

print(__name__, __spec__.name, sys.argv[1:], flush=True)
x = torch.zeros(1000, device="cuda")
y = torch.zeros(1000, device="cuda")
k_oob[(8,)](x, y, 999, BLOCK=128)
torch.cuda.synchronize()
launch()
k_oob[(8,)](x, y, 1000, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
