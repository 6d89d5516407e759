"""The program ends right after the faulty launch: the report is still printed, and the exit status shows the fault."""

from k_oob import k_oob
from shared import launch, torch

x = torch.zeros(1000, device="cuda")
y = torch.zeros(1000, device="cuda")
k_oob[(8,)](x, y, 999, BLOCK=128)
torch.cuda.synchronize()
launch()
k_oob[(8,)](x, y, 1000, BLOCK=128)
