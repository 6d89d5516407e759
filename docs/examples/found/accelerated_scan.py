import torch
from accelerated_scan.scalar import scan
forget, inputs = (torch.rand(2, 3, 1025, device="cuda", requires_grad=True) for _ in range(2))
scan(forget, inputs).sum().backward()
