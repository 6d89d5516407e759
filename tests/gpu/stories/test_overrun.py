"""Tests under pytest: the kernel of the second one overruns, the first and the third are correct."""

from k_oob import k_oob
from shared import torch


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
