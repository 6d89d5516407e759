"""Tests under pytest: the kernel of the second one overruns, the first and the third are correct."""

from shared import tl, torch, triton


@triton.jit
def k_oob(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= n  # the bug: i < n would be right
    v = tl.load(x + i, mask=inside)  # FAULT
    tl.store(y + i, v + 1.0, mask=inside)


def run(n):
    x = torch.zeros(1000, device="cuda")
    y = torch.zeros(1000, device="cuda")
    k_oob[(8,)](x, y, n, BLOCK=128)
    torch.cuda.synchronize()


def test_right():
    run(999)


def test_wrong():
    run(1000)


def test_right_again():
    run(999)
