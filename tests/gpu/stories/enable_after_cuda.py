"""enable() after CUDA has started raises an error that says what to do."""

import torch

import cufence

torch.zeros(1, device="cuda")
cufence.enable()  # RAISES
print("not reached")
