"""Out of memory raises torch.OutOfMemoryError, and the program can continue."""

import cufence

cufence.enable()

import torch

free, total = torch.cuda.mem_get_info()
try:
    torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    raise SystemExit("twice the device's memory was handed out")
except torch.OutOfMemoryError as error:
    assert "CUDA out of memory. Tried to allocate" in str(error), error
    assert "cufence" in str(error), error
    print("one too large request:", str(error).splitlines()[0])

chunks = []
try:
    while True:
        chunks.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
        assert len(chunks) <= total >> 30, "more was handed out than the device has"
except torch.OutOfMemoryError:
    print("filled up, not counting the error:", len(chunks) >= (free >> 30) * 9 // 10)
chunks.clear()
# Freed memory can serve another size: idle mappings are released before an allocation fails.
half = torch.ones((total // 2) // 4, dtype=torch.float32, device="cuda")
assert float(half[-1]) == 1.0
del half
torch.cuda.synchronize()
torch.cuda.empty_cache()
assert cufence.stats()["idle_bytes"] == 0, cufence.stats()
assert cufence.fault_count() == 0
print("recovered")
