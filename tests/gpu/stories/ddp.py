"""Two ranks with a GPU each: DistributedDataParallel over NCCL. Both end with the same parameters as without cufence."""

import hashlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Linear(37, 129), torch.nn.ReLU(), torch.nn.Linear(129, 7)).cuda()
parallel = DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05)
torch.manual_seed(2 + rank)
for _ in range(50):
    x, y = torch.randn(65, 37, device="cuda"), torch.randn(65, 7, device="cuda")
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(parallel(x), y).backward()
    optimizer.step()
flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
both = [torch.empty_like(flat) for _ in range(2)]
dist.all_gather(both, flat)
assert torch.equal(*both)
torch.cuda.synchronize()
if rank == 0:
    print("sha256", hashlib.sha256(flat.cpu().numpy().tobytes()).hexdigest())
dist.destroy_process_group()
