import torch, attorch
x = torch.randn(7, 33, device="cuda", requires_grad=True)
attorch.GELU()(x).sum().backward()
