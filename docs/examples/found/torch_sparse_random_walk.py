import torch
from torch_sparse import SparseTensor
row = torch.tensor([0, 0], device="cuda")
col = torch.tensor([1, 1], device="cuda")  # 1 has no edges out
adj = SparseTensor(row=row, col=col, sparse_sizes=(2, 2))
print(adj.random_walk(torch.tensor([0], device="cuda"), walk_length=3))
