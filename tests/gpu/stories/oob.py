"""k_oob's overrun in many surroundings. Argument: how the program waits for the kernel (item, cpu, stream, event: that line raises; never:
it just ends, and the exit status shows the fault), or

forked        all in a child that is forked after the imports
module        started like a Jupyter kernel: `python -m oob module -f FILE`. The arguments arrive
other_stream  while another stream is busy for several seconds: the report does not wait for that stream
rank          two ranks on one GPU, started by torchrun. Rank 1 has the bug and ends last: the report and its file must say so
local         the buffer is in a local variable of a function that the exception comes through
"""

import os
import sys
import time

from k_oob import k_oob
from shared import launch, torch

how = sys.argv[1]
if how == "forked" and os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
if how == "module":
    print(__name__, __spec__.name, sys.argv[2:], flush=True)


def step(n):
    batch = {"ids": torch.zeros(1000, device="cuda")}
    result = torch.zeros(1024, device="cuda")
    k_oob[(8,)](batch["ids"], result, n, BLOCK=128)
    torch.cuda.synchronize()


if how == "local":
    step(999)
    launch()
    step(1000)  # RAISES local
x = torch.zeros(1000, device="cuda:0")
y = torch.zeros(1000, device="cuda:0")
event, busy, faulty = torch.cuda.Event(), torch.cuda.Stream(), torch.cuda.current_stream()
k_oob[(8,)](x, y, 999, BLOCK=128)
y[0].item()
torch.cuda.synchronize()
if how == "rank":
    if os.environ["RANK"] == "0":
        print("rank 0 is done", flush=True)
        sys.exit(0)
    time.sleep(2)  # rank 0 ends first
if how == "other_stream":
    a = torch.randn(2048, 2048, device="cuda")
    a @ a
    torch.cuda.synchronize()
    faulty = torch.cuda.Stream()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(3_000_000_000)  # clock cycles: about 1.5 s
        b = a @ a
launch()
with torch.cuda.stream(faulty):
    k_oob[(8,)](x, y, 1000, BLOCK=128)
if how == "never":
    sys.exit()
if how == "other_stream":
    print("busy when the fault came:", not busy.query(), flush=True)
else:
    event.record()
if how == "item":
    y[0].item()  # RAISES item
elif how == "cpu":
    y.cpu()  # RAISES cpu
elif how == "stream":
    torch.cuda.current_stream().synchronize()  # RAISES stream
elif how == "event":
    event.synchronize()  # RAISES event
torch.cuda.synchronize()  # RAISES
print("not reached")
