import torch
from torchao.prototype.hqq.mixed_mm import triton_mixed_mm
x, scales, zeros = (torch.randn(*s, device="cuda", dtype=torch.float16) for s in ((1, 128), (2, 72), (2, 72)))
weight = torch.zeros(64, 72, device="cuda", dtype=torch.uint8)
triton_mixed_mm(x, weight, scales, zeros, group_size=64)
