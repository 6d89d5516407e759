"""A small model trained with AdamW: each step launches the same kernels of PyTorch and cuBLAS in the same shapes. Argument: steps."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(256, 64, device="cuda")
y = torch.randint(0, 10, (256,), device="cuda")
for _ in range(int(sys.argv[1])):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("finite:", bool(torch.isfinite(loss)))
