import torch, flag_gems
flag_gems.enable()
weight = torch.randn(5, 1000, device="cuda", requires_grad=True)
torch.nn.functional.embedding(torch.tensor([1, 2, 3], device="cuda"), weight).sum().backward()
