"""One process with two GPUs: tensors are copied between them, and DataParallel computes on both."""

import hashlib

import torch

torch.manual_seed(1)
digest = hashlib.sha256()
for size in (1, 1000, 1 << 20, (3 << 20) + 5):
    first = torch.randn(size, device="cuda:0")
    second = first.to("cuda:1", non_blocking=True)
    assert second.device.index == 1 and torch.equal(second.cpu(), first.cpu())
    back = torch.empty(size, device="cuda:0")
    back.copy_(second * 2)
    assert torch.equal(back, first * 2)
    digest.update(back.cpu().numpy().tobytes())
print("copies are right")
model = torch.nn.DataParallel(torch.nn.Linear(64, 8).cuda(0), device_ids=[0, 1])
for _ in range(10):
    loss = model(torch.randn(32, 64, device="cuda:0")).square().mean()
    loss.backward()
digest.update(model.module.weight.grad.cpu().numpy().tobytes())
print("sha256", digest.hexdigest())
