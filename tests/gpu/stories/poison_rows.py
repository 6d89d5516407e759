"""A pool of rows, which are used on one stream, read on another one, and poisoned there while nobody has them. With "write" one is written, with "read" it is
read after that; with "right" neither."""

import sys

import torch

import cufence

pool = torch.zeros(64, 4096, device="cuda")
cufence.poison(pool)
side = torch.cuda.Stream()
for step in range(50):
    rows = [pool[(step + i) % 64] for i in range(8)]
    for row in rows:
        cufence.unpoison(row)
        row.fill_(step)
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.default_stream())
        total = torch.stack(rows).sum()
        for row in rows:
            cufence.poison(row)
    torch.cuda.default_stream().wait_stream(side)
    assert float(total) == step * 8 * 4096, (step, float(total))
print("sums are right: True")
if sys.argv[1] == "write":
    pool[5, 7] = 1.0
if sys.argv[1] == "read":
    print("read:", float((pool[5] * 2).sum()))
print("check:", cufence.check())
