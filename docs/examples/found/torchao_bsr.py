import torch
from torchao.kernel.bsr_triton_ops import bsr_dense_addmm
f = lambda *s: torch.randn(*s, device="cuda", dtype=torch.bfloat16)
bsr_dense_addmm(f(64, 8), f(64, 64).to_sparse_bsr((32, 32)), f(64, 8))
