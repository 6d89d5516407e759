"""PyTorch in eager mode makes a NaN in one element, in the way that the argument names."""

import sys

import torch

kind = sys.argv[1]
x = torch.rand(64, 1000, device="cuda") + 1
y = x.clone() * 2
if kind == "log":
    y[3, 417] = -1.0
    z = torch.log(y)  # NAN log
elif kind == "divide":
    y[3, 417] = 0.0
    z = torch.div(y, y)  # NAN divide
else:
    h = (y.half() * 1000) * 100  # overflows: Inf, which is no NaN yet
    z = h - h  # NAN half
w = z + 1
v = w.sum()
torch.cuda.synchronize()
print("sum is NaN:", bool(torch.isnan(v)))
