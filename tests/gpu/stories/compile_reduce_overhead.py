"""torch.compile(mode="reduce-overhead"): CUDA graph trees need allocator checkpoints; they are disabled, with one warning."""

import torch

torch.manual_seed(6)
model = torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.ReLU(), torch.nn.Linear(65, 5)).cuda()
compiled = torch.compile(model, mode="reduce-overhead")
again = torch.compile(lambda x: torch.relu(x) * 3, mode="reduce-overhead")  # a second one must not warn again
for _ in range(5):
    data = torch.randn(9, 33, device="cuda")
    torch.testing.assert_close(compiled(data), model(data), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(again(data), torch.relu(data) * 3)
    compiled(data).sum().backward()
torch.cuda.synchronize()
print("reduce-overhead is right")
