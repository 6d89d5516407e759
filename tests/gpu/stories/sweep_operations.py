"""Every operator of PyTorch's own table (OpInfo) that takes float32, on its sample inputs. For nan_sweep.py.

Prints a line of JSON for each operator: {"name", "samples", "failed" (why), "nan" (the samples, from 0, with a NaN in an input or a
result), "buffers" (with --buffers: the number of one that was allocated just before each sample)}. Buffers are labelled "NAME SAMPLE".

    sweep_operations.py [--samples 4] [--only NAME,...] [--device cuda] [--buffers]
"""

import argparse
import importlib.util
import json
import sys
import types
import unittest
import warnings

import cufence
import torch

if not importlib.util.find_spec("expecttest"):  # PyTorch's own tests want it, the table does not
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase
    sys.modules["expecttest"].__getattr__ = lambda name: None

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._pytree import tree_flatten  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=4)
parser.add_argument("--only", default="")
parser.add_argument("--device", default="cuda")
parser.add_argument("--buffers", action="store_true")
options = parser.parse_args()
wanted = set(filter(None, options.only.split(",")))
warnings.simplefilter("ignore")


def has_nan(*values):
    tensors = [value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor) and value.layout == torch.strided]
    return any((t.is_floating_point() or t.is_complex()) and bool(t.isnan().any()) for t in tensors)


def has_nan_in_play(op, sample):
    """Calls the operator. Returns whether there is a NaN in the inputs or results."""
    given = has_nan(sample.input, sample.args, sample.kwargs)
    result = op(sample.input, *sample.args, **sample.kwargs)
    return given or has_nan(result, sample.input)


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


for op in op_db:
    name = name_of(op)
    if torch.float32 not in op.supported_dtypes(options.device) or (wanted and name not in wanted):
        continue
    told = {"name": name, "samples": 0, "nan": [], "buffers": []}
    torch.manual_seed(5)
    try:
        samples = iter(op.sample_inputs(options.device, torch.float32))
        for number in range(options.samples):
            if options.buffers:
                told["buffers"].append(cufence.describe(torch.empty(1, device=options.device))["buffer"]["id"])
            with cufence.label(f"{name} {number}"):
                sample = next(samples, None)
                if sample is None:
                    break
                if has_nan_in_play(op, sample):
                    told["nan"].append(number)
            told["samples"] += 1
    except Exception as error:  # some need libraries that are not installed
        told["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
    print(json.dumps(told), flush=True)
