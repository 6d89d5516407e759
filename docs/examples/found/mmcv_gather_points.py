import torch
from mmcv.ops import gather_points
features = torch.zeros(1, 1, 1000, device="cuda")
index = torch.zeros(1, 3_000_000, dtype=torch.int32, device="cuda")
print(gather_points(features, index))
