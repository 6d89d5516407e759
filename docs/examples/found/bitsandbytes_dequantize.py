import torch
from bitsandbytes.functional import dequantize_4bit, quantize_4bit
weight = torch.randn(100, 64, device="cuda")
print(dequantize_4bit(*quantize_4bit(weight, blocksize=64, quant_type="nf4")))
