"""Two ranks with a GPU each: a transformer, sharded with fully_shard() over NCCL. It ends with the same parameters as without cufence.

The sums of reduce-scatter of two ranks do not depend on an order."""

import hashlib
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
layers = [torch.nn.TransformerEncoderLayer(66, 6, 130, dropout=0.0, batch_first=True) for _ in range(3)]
model = torch.nn.Sequential(*layers, torch.nn.Linear(66, 5)).cuda()
for layer in layers:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(2 + rank)
for _ in range(30):
    x, y = torch.randn(7, 33, 66, device="cuda"), torch.randn(7, 33, 5, device="cuda")
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
flat = torch.cat([parameter.full_tensor().detach().flatten() for parameter in model.parameters()])
assert torch.isfinite(flat).all()
torch.cuda.synchronize()
if rank == 0:
    print("sha256", hashlib.sha256(flat.cpu().numpy().tobytes()).hexdigest())
dist.destroy_process_group()
