"""What the stories share. A story begins with `from shared import ...`; one that sets something before PyTorch is imported does so first."""

import sys
import time

import torch
import triton
import triton.language as tl

__all__ = ["launch", "tl", "torch", "triton"]


def launch() -> None:
    """Says when the kernel that faults is launched: the harness times the report from here."""
    print("launch", time.time(), file=sys.stderr, flush=True)
