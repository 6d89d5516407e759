"""enable() after CUDA has started is refused with a sentence that says what to do."""

import torch

import cufence

torch.zeros(1, device="cuda")
cufence.enable()  # RAISES
print("not reached")
