"""The buffer is in a local variable of a function that the exception comes through."""

from k_oob import k_oob
from shared import launch, torch


def step(n):
    batch = {"ids": torch.zeros(1000, device="cuda")}
    result = torch.zeros(1024, device="cuda")
    k_oob[(8,)](batch["ids"], result, n, BLOCK=128)
    torch.cuda.synchronize()


step(999)
launch()
step(1000)  # RAISES
print("not reached")
