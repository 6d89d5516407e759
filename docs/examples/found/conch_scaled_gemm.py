import torch
from conch.ops.quantization.gemm import scaled_gemm
a, b = (torch.ones(*s, device="cuda", dtype=torch.int8) for s in ((1, 64), (64, 40)))
scale_a, scale_b = torch.ones(1, 1, device="cuda"), torch.ones(1, 40, device="cuda")
scaled_gemm(a, b, scale_a, scale_b, torch.float16)
