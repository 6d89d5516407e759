"""A tensor that a CUDA graph reads is freed, and the graph is replayed. With `kept` it is not freed, and all is well."""

import sys

from shared import launch, tl, torch, triton


@triton.jit
def k_scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v * 2.0, mask=inside)


tensors = [torch.full((1000,), 3.0, device="cuda")]  # ALLOCATED
y = torch.zeros(1000, device="cuda")
k_scale[(8,)](tensors[0], y, 1000, BLOCK=128)
torch.cuda.synchronize()

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    doubled = y * 2.0
    k_scale[(8,)](tensors[0], y, 1000, BLOCK=128)  # CAPTURED
for _ in range(20):
    graph.replay()
    torch.randn(1000, device="cuda")
torch.cuda.synchronize()
assert float(y.sum()) == 6000.0 and float(doubled.sum()) == 12000.0
print("20 replays are right", flush=True)
if sys.argv[1] != "kept":
    tensors.clear()  # FREED
others = [torch.ones(1000, device="cuda") for _ in range(3)]
launch()
graph.replay()
torch.cuda.synchronize()  # RAISES
assert float(y.sum()) == 6000.0
print("21 replays are right")
