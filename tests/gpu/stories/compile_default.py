"""torch.compile in its default mode: forward and backward of a small model, odd shapes. The results match eager mode."""

import copy

import torch

torch.manual_seed(5)
eager = torch.nn.Sequential(
    torch.nn.Linear(33, 65), torch.nn.LayerNorm(65), torch.nn.GELU(), torch.nn.Linear(65, 17), torch.nn.Softmax(dim=-1)
).cuda()
model = copy.deepcopy(eager)
compiled = torch.compile(model)
for rows in (7, 7, 129):  # the third shape is recompiled, with dynamic shapes
    data = torch.randn(rows, 33, device="cuda")
    target = torch.randint(0, 17, (rows,), device="cuda")
    losses = []
    for run in (eager, compiled):
        run.zero_grad()
        loss = torch.nn.functional.nll_loss((run(data) + 1e-6).log(), target)
        loss.backward()
        losses.append(loss.detach())
    torch.testing.assert_close(*losses)
    for expected, found in zip(eager.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-5)
torch.cuda.synchronize()
print("compiled equals eager")
