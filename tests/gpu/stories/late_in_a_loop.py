"""A loop in which a kernel reads what the step before has freed, with default options: its place of allocation has its turn within
a few steps, and then the late access faults. Up to then the loop only computes with what happens to be there."""

import time

from shared import launch, tl, torch, triton

STEPS = 200


@triton.jit
def k_late(address, y, n, BLOCK: tl.constexpr):
    x = address.to(tl.pointer_type(tl.float32))  # an integer: Triton checks pointers with the driver, and refuses a stale one
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v + 1.0, mask=inside)


def scratch():
    return torch.zeros(1000, device="cuda")  # ALLOCATED


def others(size):
    """What a step allocates besides, so that the place of the bug is one of many."""
    value = torch.ones(size, device="cuda")
    for k in range(20):
        value = value * 0.5 + k
    return value.sum()


y = torch.zeros(1000, device="cuda")
stale = None
for step in range(STEPS):
    buffer = [scratch()]
    if stale is not None:
        launch()  # the last one counts: that faults
        k_late[(8,)](stale, y, 1000, BLOCK=128)
    stale = buffer[0].data_ptr()
    others(50_000)
    buffer.clear()  # FREED
    time.sleep(0.005)
    print("step", step, flush=True)
    torch.cuda.synchronize()  # RAISES
print("not reached")
