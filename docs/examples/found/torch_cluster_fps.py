import torch
from torch_cluster import fps
points = torch.randn(4, 3, device="cuda")
batch = torch.zeros(4, dtype=torch.long, device="cuda")
print(fps(points, batch, ratio=0.5, batch_size=2))  # the second example is empty
