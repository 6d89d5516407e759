"""The overrun again: which line of Python raises? The one that waits for the kernel. Argument: the kind of wait; or
forked: all in a child that is forked after the imports."""

import os
import sys

from k_oob import k_oob
from shared import launch, torch

how = sys.argv[1]
if how == "forked" and os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
x = torch.zeros(1000, device="cuda")
y = torch.zeros(1000, device="cuda")
event = torch.cuda.Event()
k_oob[(8,)](x, y, 999, BLOCK=128)
y[0].item()
torch.cuda.synchronize()
launch()
k_oob[(8,)](x, y, 1000, BLOCK=128)
event.record()
if how == "item":
    y[0].item()  # RAISES item
elif how == "cpu":
    y.cpu()  # RAISES cpu
elif how == "stream":
    torch.cuda.current_stream().synchronize()  # RAISES stream
elif how == "event":
    event.synchronize()  # RAISES event
elif how == "forked":
    torch.cuda.synchronize()  # RAISES forked
print("not reached")
