"""A kernel reads memory that nobody has written, and that holds NaN of an earlier tensor: one of PyTorch's in eager mode, or one of
Triton's."""

import sys

import torch

x = torch.full((10000,), 2.0, device="cuda")
x[4170] = float("nan")
torch.cuda.synchronize()
address = x.data_ptr()
del x
x = torch.empty(10000, device="cuda")
assert x.data_ptr() == address, "the memory of the earlier tensor was not used again"

if sys.argv[1] == "eager":
    z = torch.neg(x)  # NAN
else:
    import triton
    import triton.language as tl

    @triton.jit
    def k_log(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.log(tl.load(x + i, mask=i < n)), mask=i < n)

    z = torch.empty_like(x)
    k_log[(79,)](x, z, 10000, BLOCK=128)  # NAN
torch.cuda.synchronize()
print("element 4170 is NaN:", bool(torch.isnan(z[4170])))
