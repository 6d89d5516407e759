"""CUDA graphs without a bug: memory allocated in a capture stays mapped, and is released with the graphs."""

import gc
import runpy
from pathlib import Path

import cufence

cufence.enable(uaf="strict")

import torch

story = runpy.run_path(str(Path(__file__).with_name("cuda_graph_clean.py")))
assert cufence.describe(story["out"])["buffer"]["is_mapped"]
captured = cufence.stats()["captured_bytes"]
assert captured > 0, cufence.stats()
first, second = story["first"], story["second"]
story.clear()
gc.collect()  # releases its tensors
second.reset()
first.reset()
del first, second
gc.collect()
torch.cuda.synchronize()
torch.cuda.empty_cache()
left = cufence.stats()["captured_bytes"]
assert left < captured, (left, captured)
assert cufence.fault_count() == 0
print("released")
