"""CUDA graphs without a bug: two graphs share a pool; results are right over 100 replays, between frees and empty_cache()."""

import gc

import torch

torch.manual_seed(3)
weight = torch.randn(257, 257, device="cuda") / 16
static_in = torch.zeros(33, 257, device="cuda")


def work(value):
    for _ in range(3):
        value = torch.relu(value @ weight) + value.mean(dim=1, keepdim=True)
    return value


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        work(static_in)
torch.cuda.current_stream().wait_stream(side)

first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
with torch.cuda.graph(first):
    out = work(static_in)
with torch.cuda.graph(second, pool=first.pool()):
    doubled = out * 2
for step in range(100):
    data = torch.randn(33, 257, device="cuda")
    static_in.copy_(data)
    first.replay()
    second.replay()
    expected = work(data)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(doubled, out * 2), step
    del expected, data
    if step % 10 == 0:
        gc.collect()
        torch.cuda.empty_cache()
torch.cuda.synchronize()
print("100 replays are right")
