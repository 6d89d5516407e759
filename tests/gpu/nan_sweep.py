"""No false NaN in a sweep of PyTorch's operators: `cufence run --nan report` over stories/sweep_operations.py.

    python3 tests/gpu/nan_sweep.py [--samples 4] [--only NAME,...] [--json FILE]

A finding belongs to the operator and sample that allocated the newest of the launch's buffers; it may be gone when it is told. It is right
if inputs or results of the sample have a NaN. One where neither has any may still be: an intermediate result, which the operator
does not use. Those are listed, and fail unless INTERMEDIATE names the operator. Exit status: 0 if there are none, 1 if there are,
2 without a GPU, PyTorch, or a sweep that ended well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import COMMAND, PACKAGE, STORIES
from script import succeeds

# Operator -> which intermediate result of it holds NaN.
INTERMEDIATE = {"torch.ops.aten._safe_softmax.default": "the softmax of a row of -inf, which it then replaces by 0"}


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def sweep(options: argparse.Namespace) -> tuple[int, list[dict[str, Any]], list[dict[str, Any]], str]:
    """Returns the exit status, what the sweep says of each operator, the findings, and standard error."""
    environment = dict(os.environ)
    environment["CUFENCE_TUNABLES"] = "reports=100000"
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE), environment.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "found.jsonl")
        done = subprocess.run(
            [COMMAND, "run", "--nan", "report", "--on_fault", "/0", "--json", found, "--",
             sys.executable, STORIES / "sweep_operations.py", "--buffers", "--samples", str(options.samples), "--only", options.only],
            env=environment, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
        findings = [line for line in lines_of(found.read_text()) if line["kind"] not in ("run", "guarded")] if found.exists() else []
    return done.returncode, lines_of(done.stdout), findings, done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4, help="of each operator, at most")
    parser.add_argument("--only", default="", help="operators, by their full names")
    parser.add_argument("--json", type=Path, help="write all findings and the sweep's lines here")
    options = parser.parse_args()
    if not succeeds("nvidia-smi", "-L") or not succeeds(sys.executable, "-c", "import torch"):
        print("nan_sweep: needs a GPU and PyTorch")
        return 2
    status, operators, findings, said = sweep(options)
    if options.json:
        options.json.write_text(json.dumps({"status": status, "operators": operators, "findings": findings}, indent=1))
    failed = [operator for operator in operators if "failed" in operator]
    if status or len(failed) == len(operators):
        print(f"nan_sweep: the sweep ended with status {status} after {len(operators)} operators, {len(failed)} left out\n{said[-3000:]}")
        return 2
    begun = [(buffer, f"{operator['name']} {number}") for operator in operators for number, buffer in enumerate(operator["buffers"])]
    with_nan = {f"{operator['name']} {number}" for operator in operators for number in operator["nan"]}
    unknown = []
    for finding in findings:
        newest = max((one["buffer"] for one in finding.get("nan", {}).get("inputs", [])), default=0)
        label = next((label for buffer, label in reversed(begun) if buffer < newest), "")
        if label not in with_nan and label.rpartition(" ")[0] not in INTERMEDIATE:
            unknown.append(f"{label or 'no operator'}: {finding.get('headline') or finding.get('what')}")
    for line in unknown:
        print(f"FAILED   {line}")
    for operator in failed:
        print(f"left out {operator['name']}: {operator['failed']}")
    samples = sum(operator["samples"] for operator in operators)
    print(f"{len(operators) - len(failed)} operators, {samples} samples, {len(with_nan)} of them with NaN; {len(findings)} findings, "
          f"{len(unknown)} where inputs and results have none")  # fmt: skip
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
