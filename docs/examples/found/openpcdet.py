import torch
from pcdet.ops.pointnet2.pointnet2_stack.pointnet2_utils import grouping_operation, three_interpolate, three_nn
features = torch.zeros(4, 8, device="cuda")
points, queries = torch.zeros(4, 3, device="cuda"), torch.zeros(2, 3, device="cuda")
have, ask = (torch.tensor(n, dtype=torch.int32, device="cuda") for n in ([4, 0], [1, 1]))
print(grouping_operation(features, have, torch.zeros(2, 4, dtype=torch.int32, device="cuda"), ask))
distance, index = three_nn(queries, ask, points, have)
print(three_interpolate(features, index, torch.ones_like(distance) / 3))
