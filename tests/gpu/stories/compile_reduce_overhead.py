"""torch.compile(mode="reduce-overhead"): CUDA graph trees need checkpoints of the allocator."""

import torch

torch.manual_seed(6)
model = torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.ReLU(), torch.nn.Linear(65, 5)).cuda()
compiled = torch.compile(model, mode="reduce-overhead")
again = torch.compile(lambda x: torch.relu(x) * 3, mode="reduce-overhead")
for _ in range(5):
    torch.compiler.cudagraph_mark_step_begin()
    model.zero_grad()  # a gradient that lies in the graphs' memory does not outlive the step
    data = torch.randn(9, 33, device="cuda")
    out = compiled(data)
    torch.testing.assert_close(out, model(data), rtol=1e-4, atol=1e-5)
    out.sum().backward()
for _ in range(5):
    torch.compiler.cudagraph_mark_step_begin()
    data = torch.randn(9, 33, device="cuda")
    torch.testing.assert_close(again(data), torch.relu(data) * 3)
torch.cuda.synchronize()
print("reduce-overhead is right")
assert list(torch._inductor.cudagraph_trees.get_container(0).tree_manager.get_roots())
print("in CUDA graphs")
