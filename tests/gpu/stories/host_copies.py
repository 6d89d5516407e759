"""Pinned memory and non-blocking copies: what is wrong about them is reported with streams=on+host.

staging   a staging buffer is filled again before the copy from it is known to be done
result    numpy() reads a result before the copy to it is known to be done
right     both with a wait for an event
"""

import sys

import torch

how = sys.argv[1]
staging = torch.empty(1 << 20).pin_memory()
sums = []
for step in range(4):
    staging.fill_(step)
    values = staging.to("cuda", non_blocking=True)  # STAGING
    copied = torch.cuda.Event()
    copied.record()
    sums.append(values.sum())
    if how != "staging":
        copied.synchronize()
result = torch.stack(sums).to("cpu", non_blocking=True)
if how == "right":
    torch.cuda.current_stream().synchronize()
if how != "staging":
    read = result.numpy()  # RESULT
torch.cuda.synchronize()
assert how != "right" or read.tolist() == [float(step << 20) for step in range(4)]
print("4 sums")
