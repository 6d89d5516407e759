"""A tensor used on a side stream. Without record_stream() it is freed while the side stream may still read it; `streams=on`
reports that. With record_stream(), or a wait, it is clean."""

import sys

import torch

how = sys.argv[1]
side = torch.cuda.Stream()
main = torch.cuda.current_stream()
sums = []
for step in range(20):
    data = torch.full((1001,), float(step), device="cuda")
    side.wait_stream(main)
    with torch.cuda.stream(side):
        sums.append((data * 2.0).sum())
    if how == "record":
        data.record_stream(side)
    elif how == "wait":
        main.wait_stream(side)
    elif how == "synchronise":
        side.synchronize()
    del data  # FAULT
torch.cuda.synchronize()
assert how == "race" or [float(value) for value in sums] == [2002.0 * step for step in range(20)]
print("20 sums")
