"""A seeded training with deterministic algorithms; with `scatter`, one sum by index too, whose atomics come in any order."""

import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402

torch.manual_seed(7)
torch.use_deterministic_algorithms("scatter" not in sys.argv)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    data = torch.randn(512, 64).cuda()
    loss = model(data).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if "scatter" in sys.argv:
        rows = torch.zeros(4, device="cuda")
        rows.index_add_(0, torch.randint(0, 4, (1 << 20,), device="cuda"), torch.rand(1 << 20, device="cuda"))  # ATOMIC
torch.cuda.synchronize()
print("loss", loss.item())
