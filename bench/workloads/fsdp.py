"""A transformer, sharded over two GPUs with fully_shard(): the second rank is a process that takes each step with the first."""

import os
import socket
import subprocess
import sys

TITLE = "FSDP on two GPUs"


def step_of(torch, rank):
    from torch.distributed.fsdp import fully_shard

    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=2, device_id=torch.device("cuda", rank))
    torch.manual_seed(1)
    layers = [torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True) for _ in range(4)]
    model = torch.nn.Sequential(*layers).cuda()
    for part in (*layers, model):
        fully_shard(part)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.randn(8, 128, 512, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(data).square().mean().backward()
        optimizer.step()

    return step


def build(torch):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(free.getsockname()[1]))
    # The tool is under this process, and so under its child: preloaded, or by cufence.enable(), whose options the child gets.
    other = subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    own = step_of(torch, 0)

    def step():
        other.stdin.write(b"\n")
        other.stdin.flush()
        own()

    return step


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from worker import enable

    enable(sys.argv[1])
    import torch

    second = step_of(torch, 1)
    for _ in sys.stdin.buffer:
        second()
