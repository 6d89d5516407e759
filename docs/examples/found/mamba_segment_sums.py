import torch
from mamba_ssm.ops.triton.mamba3.mamba3_mimo_utils import compute_dacs_segsum_triton
compute_dacs_segsum_triton(-torch.rand(1, 2, 100, device="cuda"), 64)
