import torch
from mamba_ssm.ops.triton.mamba3.mamba3_siso_bwd import compute_dzdo
compute_dzdo(*(torch.randn(2, 33, 3, 40, device="cuda", dtype=torch.bfloat16) for _ in range(3)))
