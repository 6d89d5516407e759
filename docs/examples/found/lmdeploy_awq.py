import torch
from lmdeploy.pytorch.kernels.cuda.awq_kernels import awq_linear
n, f = 200, lambda *s: torch.randint(0, 2**31 - 1, s, device="cuda", dtype=torch.int32)
x, scales = (torch.randn(*s, device="cuda", dtype=torch.float16) for s in ((5, 128), (1, n)))
awq_linear(x, f(128, n // 8), scales, f(1, n // 8))
