"""The overrun while another stream is busy for several seconds: the report does not wait for that stream."""

from k_oob import k_oob
from shared import launch, torch

x = torch.zeros(1000, device="cuda")
y = torch.zeros(1000, device="cuda")
a = torch.randn(2048, 2048, device="cuda")
k_oob[(8,)](x, y, 999, BLOCK=128)
a @ a
torch.cuda.synchronize()

busy = torch.cuda.Stream()
faulty = torch.cuda.Stream()
with torch.cuda.stream(busy):
    torch.cuda._sleep(3_000_000_000)  # clock cycles: about 1.5 s
    b = a @ a
launch()
with torch.cuda.stream(faulty):
    k_oob[(8,)](x, y, 1000, BLOCK=128)
print("busy when the fault came:", not busy.query(), flush=True)
torch.cuda.synchronize()  # RAISES
print("not reached")
