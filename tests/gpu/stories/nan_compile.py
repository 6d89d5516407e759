"""A compiled model makes a NaN in one element, in a kernel of Inductor's."""

import torch


def model(x, weight):
    hidden = torch.relu(x @ weight)
    return torch.log(hidden - 0.5) * 2  # NAN: where the product is less


torch.manual_seed(3)
compiled = torch.compile(model)
x = torch.rand(64, 128, device="cuda") + 1
weight = torch.rand(128, 64, device="cuda")
good = compiled(x, weight)
torch.cuda.synchronize()
print("no NaN before:", not bool(torch.isnan(good).any()))
weight[:, 5] = 0
bad = compiled(x, weight)
torch.cuda.synchronize()
print("NaN in column 5:", bool(torch.isnan(bad[:, 5]).all()))
