"""A Triton kernel makes a NaN in one element."""

from shared import tl, torch, triton


@triton.jit
def k_log(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.log(tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit
def k_add(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1.0, mask=i < n)


x = torch.rand(10000, device="cuda") + 1
x[4170] = -1.0
y = torch.empty_like(x)
z = torch.empty_like(x)
k_add[(79,)](y.fill_(1.0), z, 10000, BLOCK=128)
k_log[(79,)](x, y, 10000, BLOCK=128)  # NAN
k_add[(79,)](y, z, 10000, BLOCK=128)
torch.cuda.synchronize()
print("element 4170 is NaN:", bool(torch.isnan(z[4170])))
