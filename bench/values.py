"""Times training, inference and small operations of PyTorch with values= and nan= against cufence without them.

    python3 bench/values.py [--pairs 25] [--markdown FILE]       about three minutes on an H100

The same workloads, taken in the same alternating pairs as in torch_step.py, of which this is a part.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch_step  # noqa: E402
from torch_step import RUN, Backend  # noqa: E402

torch_step.BACKENDS.clear()
torch_step.BACKENDS.update(
    {
        "native": Backend("`cufence run`", {}, None, launcher=(*RUN, "--")),
        "other": Backend("values= of kernels that there are none of", {}, None, launcher=(*RUN, "--values", "no_such_kernel", "--")),
        "one": Backend("values=#1000, one launch", {}, None, launcher=(*RUN, "--values", "#1000=/dev/null", "--")),
        "softmax": Backend("values=*softmax*", {}, None, launcher=(*RUN, "--values", "*softmax*=/dev/null", "--")),
        "all": Backend("values=*, every launch", {}, None, True, launcher=(*RUN, "--values", "*=/dev/null", "--")),
        "nan": Backend("nan=report", {}, None, launcher=(*RUN, "--nan", "report", "--")),
        "nan_10": Backend("nan=report,every=10", {}, None, launcher=(*RUN, "--nan", "report", "--every", "10", "--")),
        "nan_stop": Backend("nan=stop", {}, None, True, launcher=(*RUN, "--nan", "stop", "--")),
    }
)
torch_step.__file__ = os.path.abspath(__file__)  # what a worker is started with

if __name__ == "__main__":
    if not any(argument.startswith("--pairs") for argument in sys.argv):
        sys.argv += ["--pairs", "25"]
    sys.exit(torch_step.main())
