"""Fills the GPU: `training` takes nine tenths of it at its peak, `growing` makes caches longer until nothing more fits. Prints what fitted.

The last line is JSON: how much fitted (steps, or tokens), the seconds that it took, and the peak in bytes.
"""

import json
import sys
import time

import torch

WIDTH, LAYERS, STEPS, TOKENS = 4096, 24, 6, 1024
FREE = torch.cuda.mem_get_info()[0]


def training() -> tuple[int, float]:
    """AdamW over a deep network. Each layer keeps an activation for the way back, and the batch is as large as nine tenths allow."""
    torch.backends.cuda.matmul.allow_tf32 = True
    model = torch.nn.Sequential(*(layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    weights = 4 * sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    rows = int((0.9 * FREE - weights) / ((LAYERS + 3) * WIDTH * 4))
    for step in range(STEPS + 2):
        if step == 2:
            torch.cuda.synchronize()
            start = time.perf_counter()
        model(torch.ones(rows - 7 * step, WIDTH, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return STEPS, time.perf_counter() - start


def growing() -> tuple[int, float]:
    """The caches of a decoder, each of which is copied into a longer one for more tokens."""
    caches = [torch.zeros(8, TOKENS, 1024, dtype=torch.bfloat16, device="cuda") for _ in range(2 * LAYERS)]
    more, tokens = torch.ones_like(caches[0]), TOKENS
    start = time.perf_counter()
    try:
        while True:
            for i, cache in enumerate(caches):
                caches[i] = torch.cat([cache, more], 1)
            tokens += TOKENS
    except torch.OutOfMemoryError:
        torch.cuda.synchronize()
        return tokens, time.perf_counter() - start


fitted, seconds = {"training": training, "growing": growing}[sys.argv[1]]()
print(json.dumps({"fitted": fitted, "seconds": seconds, "peak": torch.cuda.max_memory_allocated()}))
