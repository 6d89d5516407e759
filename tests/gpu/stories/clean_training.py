"""A training run of 200 steps without a bug. The printed digest must equal the native allocator's.

Attention uses only kernels with a deterministic backward pass. cuDNN picks algorithms by the alignment of its tensors up to
32 bytes, so the convolution has shapes whose buffers are aligned to 32 bytes under both allocators.
"""

import ctypes
import hashlib
import os

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch

torch.manual_seed(7)
torch.use_deterministic_algorithms(True)
torch.backends.cuda.enable_mem_efficient_sdp(False)
torch.backends.cuda.enable_cudnn_sdp(False)
layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
model = torch.nn.Sequential(
    torch.nn.Embedding(1000, 256), torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), torch.nn.Linear(256, 1000)
).cuda()
convolution = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.GELU()).cuda()
parameters = [*model.parameters(), *convolution.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-3)
losses = []
for step in range(200):
    tokens = torch.randint(0, 1000, (16, 33 + step % 5), device="cuda")
    images = torch.randn(5, 3, 31, 29, device="cuda")
    with torch.autocast("cuda", torch.bfloat16, enabled=step % 2 == 1):
        logits = model(tokens)
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())
    loss = loss + convolution(images).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    losses.append(loss.detach())
torch.cuda.synchronize()
digest = hashlib.sha256()
for tensor in [*losses, *parameters]:
    host = tensor.detach().float().cpu().contiguous()
    digest.update(ctypes.string_at(host.data_ptr(), 4 * host.numel()))
print("loss", float(losses[0]), "->", float(losses[-1]))
print("sha256", digest.hexdigest())
