"""CUDA graphs captured again and again, each with a sixteenth of the device's memory, and destroyed while they run."""

import time

import torch

ROUNDS = 40
static_in = torch.arange(1024, device="cuda", dtype=torch.float32)
total = torch.cuda.mem_get_info()[1]
rows = total // 16 // static_in.nbytes
most = 0


def work(step):
    large = static_in.expand(rows, 1024) + step
    return large.amax(dim=0)


work(0)
torch.cuda.synchronize()
torch.cuda.empty_cache()
free_before = torch.cuda.mem_get_info()[0]
for step in range(ROUNDS):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = work(step)
    for _ in range(10):
        graph.replay()
    if step % 2:
        del graph  # its launches are still running
    most = max(most, free_before - torch.cuda.mem_get_info()[0])
    assert torch.equal(out, static_in + step), step
print(f"{ROUNDS} graphs are right")
print(f"at most {most / total:.2f} of the device's memory")

# A released pool waits for a synchronisation, and is then kept for reuse like any freed memory.
torch.cuda.synchronize()
torch.cuda.empty_cache()
began = time.monotonic()
while torch.cuda.mem_get_info()[0] < free_before - total // 32 and time.monotonic() < began + 10:
    time.sleep(0.001)
waited = time.monotonic() - began
assert waited < 10, f"{(free_before - torch.cuda.mem_get_info()[0]) >> 20} MiB did not come back"
print(f"the memory of the last graph came back after {waited * 1000:.0f} ms")
