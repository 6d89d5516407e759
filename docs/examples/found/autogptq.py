import torch
from auto_gptq.nn_modules.triton_utils.kernels import quant_matmul_248
n, f = 4544, lambda *s: torch.randint(0, 2**31 - 1, s, device="cuda", dtype=torch.int32)
x, scales = (torch.randn(r, n, device="cuda", dtype=torch.float16) for r in (1, n // 64))
group = torch.arange(n, device="cuda", dtype=torch.int32) // 64
quant_matmul_248(x, f(n // 8, n), scales, f(n // 64, n // 8), group, 4, 15)
