"""For saved.py: a softmax and a matrix product of PyTorch, whose code lies in PyTorch's libraries, and a kernel of Triton."""

import torch

x = torch.randn(333, 1001, device="cuda")
w = torch.randn(1001, 77, device="cuda")
y = torch.softmax(x, dim=1)
z = y @ w
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton:

    @triton.jit
    def k_double(source, target, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = i < n
        tl.store(target + i, tl.load(source + i, mask=mask) * 2.0, mask=mask)

    out = torch.empty_like(z)
    k_double[(triton.cdiv(z.numel(), 256),)](z, out, z.numel(), BLOCK=256)
    assert torch.equal(out, z * 2)
torch.cuda.synchronize()
print("done")
