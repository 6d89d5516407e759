import torch
from jvp_flash_attention.jvp_attention import attention
q, k, v = (torch.randn(1, 2, 100, 64, device="cuda", dtype=torch.float16) for _ in range(3))
attention(q, k, v)
