import torch
from attorch.multi_head_attention_kernels import _attention
q, k, v = (torch.randn(1, 2, 100, 32, device="cuda", dtype=torch.float16) for _ in range(3))
_attention.apply(q, k, v, True, 0.5)
