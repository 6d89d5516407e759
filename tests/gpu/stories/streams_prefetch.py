"""Batches are copied to the device on a stream of their own while the model computes, as prefetchers do: no bug, no report."""

import torch

copies = torch.cuda.Stream()
main = torch.cuda.current_stream()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)


def batches(count: int):
    for _ in range(count):
        yield torch.randn(64, 256).pin_memory()


def prefetch(source):
    """Yields batches on the device, one ahead."""
    ahead = None
    for batch in source:
        with torch.cuda.stream(copies):
            arriving = batch.to("cuda", non_blocking=True)
        if ahead is not None:
            yield ahead
        main.wait_stream(copies)
        arriving.record_stream(main)
        ahead = arriving
    yield ahead


for batch in prefetch(batches(200)):
    loss = (model(batch) - batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("learned", bool(loss.item() < 1.1))
