"""The overrun inside a CUDA graph: the capture succeeds, the replay faults."""

from k_oob import k_oob
from shared import launch, torch

x = torch.zeros(1000, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    k_oob[(8,)](x, torch.empty_like(x), 999, BLOCK=128)
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch.empty_like(x)
    k_oob[(8,)](x, y, 1000, BLOCK=128)
torch.cuda.synchronize()
print("captured", flush=True)
launch()
graph.replay()
torch.cuda.synchronize()  # RAISES
print("not reached")
