import torch, flag_gems
x = torch.randn(5, 1000, device="cuda")
print(flag_gems.argmin(x, 1))
