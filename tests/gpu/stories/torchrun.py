"""Two ranks on one GPU, started by torchrun. Rank 1 has the bug: the report and its file must say so."""

import os
import sys
import time

from k_oob import k_oob
from shared import launch, torch

rank = int(os.environ["RANK"])
x = torch.zeros(1000, device="cuda:0")
y = torch.zeros(1000, device="cuda:0")
k_oob[(8,)](x, y, 999, BLOCK=128)
torch.cuda.synchronize()
if rank == 0:
    print("rank 0 is done", flush=True)
    sys.exit(0)
time.sleep(2)  # rank 0 ends first
launch()
k_oob[(8,)](x, y, 1000, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
