"""A kernel gets the address of a tensor that has just been freed: found with default options, whatever its place of allocation's turn."""

from shared import launch, tl, torch, triton


@triton.jit
def k_late(address, y, n, BLOCK: tl.constexpr):
    x = address.to(tl.pointer_type(tl.float32))  # an integer: Triton checks pointers with the driver, and refuses a stale one
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v + 1.0, mask=inside)


tensors = [torch.zeros(1000, device="cuda")]  # ALLOCATED: in a list, because Triton copies the script's globals
y = torch.zeros(1000, device="cuda")
stale = tensors[0].data_ptr()
k_late[(8,)](stale, y, 1000, BLOCK=128)
tensors.clear()  # FREED
for _ in range(20):
    k_late[(8,)](stale, y, 0, BLOCK=128)  # uses nothing
torch.cuda.synchronize()
print("nothing so far", flush=True)
launch()
k_late[(8,)](stale, y, 1000, BLOCK=128)
torch.cuda.synchronize()  # RAISES
print("not reached")
