"""Tensors passed between streams with record_stream(), freed while still in use on the device: no bug, no report."""

import torch

producer = torch.cuda.Stream()
consumers = [torch.cuda.Stream() for _ in range(3)]
sums = []
for step in range(300):
    with torch.cuda.stream(producer):
        data = torch.full((1000 + 37 * (step % 11),), float(step), device="cuda")
        if step % 16 == 0:
            torch.cuda._sleep(2_000_000)
    consumer = consumers[step % len(consumers)]
    consumer.wait_stream(producer)
    with torch.cuda.stream(consumer):
        torch.cuda._sleep(200_000)
        sums.append((data.double().sum(), float(step) * data.numel()))
    data.record_stream(consumer)
    del data  # the consumer may not have started
torch.cuda.synchronize()
for step, (value, expected) in enumerate(sums):
    assert float(value) == expected, (step, float(value), expected)
print("300 sums are right")
