import torch
from adasplash import adasplash_no_block_mask
q, k, v = (torch.randn(1, 1, 32, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
adasplash_no_block_mask(q, k, v)
