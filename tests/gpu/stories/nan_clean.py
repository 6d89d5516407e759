"""Training without a NaN: a transformer with masks of -Inf, dropout, an ignored label, a convolution, float16 under AMP with its
scaler, and operations on indices, masks and bytes. cufence must find none."""

import torch

torch.manual_seed(11)
layer = torch.nn.TransformerEncoderLayer(128, 4, 256, dropout=0.1, batch_first=True)
model = torch.nn.Sequential(
    torch.nn.Embedding(500, 128), torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.nn.Linear(128, 500)
).cuda()
images = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)).cuda()
parameters = [*model.parameters(), *images.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
causal = torch.full((32, 32), float("-inf"), device="cuda").triu(1)
for step in range(12):
    tokens = torch.randint(0, 500, (8, 32), device="cuda")
    labels = tokens.roll(-1, 1)
    labels[:, -1] = -100
    with torch.autocast("cuda", torch.float16 if step % 2 else torch.bfloat16):
        hidden = model[1](model[0](tokens), mask=causal)
        loss = torch.nn.functional.cross_entropy(model[2](hidden).float().flatten(0, 1), labels.flatten(), ignore_index=-100)
        loss = loss + images(torch.randn(4, 3, 32, 32, device="cuda")).float().square().mean()
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    scaler.step(optimizer)
    scaler.update()
    order = torch.argsort(torch.rand(1000, device="cuda"))
    assert int(order.bincount().max()) == 1
    assert int(torch.full((1000,), -1, device="cuda", dtype=torch.int64).masked_fill(order % 2 == 0, 3).sum()) == 1000
    torch.randint(0, 256, (4096,), device="cuda", dtype=torch.uint8).sort()
    torch.empty(100000, device="cuda").random_()
    torch.topk(torch.randn(4, 1000, device="cuda"), 5)
print("finite:", bool(torch.isfinite(loss)))
