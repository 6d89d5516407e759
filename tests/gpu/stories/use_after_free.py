"""A kernel gets the address of a freed tensor. With uaf=strict the freed buffer is unmapped."""

import time

from shared import launch, tl, torch, triton


@triton.jit
def k_late(address, y, n, BLOCK: tl.constexpr):
    x = address.to(tl.pointer_type(tl.float32))  # an integer: Triton checks pointers with the driver, and refuses a stale one
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v + 1.0, mask=inside)


tensors = [torch.zeros(1000, device="cuda")]  # in a list: Triton copies the script's globals, so `del` frees nothing
y = torch.zeros(1000, device="cuda")
stale = tensors[0].data_ptr()
k_late[(8,)](stale, y, 1000, BLOCK=128)
torch.cuda.synchronize()
tensors.clear()
# The buffer is unmapped once its stream has passed the free; further allocations of the program trigger that.
for _ in range(50):
    torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    time.sleep(0.01)
launch()
k_late[(8,)](stale, y, 1000, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
