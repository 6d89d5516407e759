"""Two ranks with a GPU each, over NCCL: DistributedDataParallel (ddp), or a transformer that fully_shard() shards (fsdp). Both end with the
same parameters as without cufence; the sums of reduce-scatter of two ranks do not depend on an order."""

import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

rank, is_sharded = int(os.environ["RANK"]), sys.argv[1] == "fsdp"
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
if is_sharded:
    layers = [torch.nn.TransformerEncoderLayer(66, 6, 130, dropout=0.0, batch_first=True) for _ in range(3)]
    parallel = model = torch.nn.Sequential(*layers, torch.nn.Linear(66, 5)).cuda()
    for layer in layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer, steps, shapes = torch.optim.AdamW(model.parameters(), lr=1e-3), 30, ((7, 33, 66), (7, 33, 5))
else:
    model = torch.nn.Sequential(torch.nn.Linear(37, 129), torch.nn.ReLU(), torch.nn.Linear(129, 7)).cuda()
    parallel = DistributedDataParallel(model, device_ids=[rank])
    optimizer, steps, shapes = torch.optim.SGD(parallel.parameters(), lr=0.05), 50, ((65, 37), (65, 7))
torch.manual_seed(2 + rank)
for _ in range(steps):
    x, y = (torch.randn(*shape, device="cuda") for shape in shapes)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(parallel(x), y).backward()
    optimizer.step()
flat = torch.cat([(parameter.full_tensor() if is_sharded else parameter).detach().flatten() for parameter in model.parameters()])
assert torch.isfinite(flat).all()
if not is_sharded:
    both = [torch.empty_like(flat) for _ in range(2)]
    dist.all_gather(both, flat)
    assert torch.equal(*both)
torch.cuda.synchronize()
if rank == 0:
    print("sha256", hashlib.sha256(flat.cpu().numpy().tobytes()).hexdigest())
dist.destroy_process_group()
