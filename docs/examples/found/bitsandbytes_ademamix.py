import torch, bitsandbytes
weight = torch.nn.Parameter(torch.randn(4096, device="cuda"))
weight.grad = torch.randn_like(weight)
bitsandbytes.optim.AdEMAMix32bit([weight]).step()
