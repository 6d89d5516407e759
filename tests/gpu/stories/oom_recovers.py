"""Out of memory: PyTorch's own error text, cached memory released first, and life after it."""

import torch

GIB = 1 << 30
free, total = torch.cuda.mem_get_info()
try:
    torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    raise SystemExit("twice the device's memory was handed out")
except torch.OutOfMemoryError as error:
    text = str(error)
    assert "has a total capacity of" in text and "is allocated by PyTorch" in text and "cufence: " in text, text
    print("torch's own text:", text.splitlines()[0])

chunks = []
try:
    while True:
        chunks.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
        assert len(chunks) <= total // GIB, "more was handed out than the device has"
except torch.OutOfMemoryError:
    print("filled up, not counting the error:", len(chunks) >= free // GIB * 9 // 10)
chunks.clear()
# Idle 1 GiB buffers are kept for reuse. One large tensor fits only after they are released.
reserved = torch.cuda.memory_reserved()
large = torch.full((free * 3 // 4 // 4,), 1.0, device="cuda")
assert float(large[-1]) == 1.0 and float(large[0]) == 1.0
print("cached before the large one:", reserved >= free // 2)
del large
for step in range(20):  # training continues
    weight = torch.randn(512, 512, device="cuda", requires_grad=True)
    (weight @ weight).square().mean().backward()
    assert bool(weight.grad.isfinite().all()), step
print("recovered")
