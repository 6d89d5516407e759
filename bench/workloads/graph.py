"""The perceptron, captured once as a CUDA graph: a step replays it 10 times."""

import os

from inference import model_of

TITLE = "10 graph replays"


def build(torch):
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
        raise RuntimeError("without its caching PyTorch cannot allocate in a capture")  # and its process is of no use afterwards
    model, data = model_of(torch, 1024, 8), torch.randn(256, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.inference_mode(), torch.cuda.stream(side):
        for _ in range(3):
            model(data)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        model(data)

    def step(_kept=(model, data)):  # the graph has their addresses
        for _ in range(10):
            graph.replay()

    return step
