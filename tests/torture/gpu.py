#!/usr/bin/env python3
"""Plays the torture program on one real GPU, and on two where there are two, four minutes each: gpu.py [--minutes M] --json FILE"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import torture

LINES = 40  # of what a failed program said last: an abort's message
JOBS = 4  # programs at a time: with 16 a GPU spends its time with changing from one to another
PATIENCE = 120  # seconds for a chunk


def count_gpus():
    listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, check=False).stdout.decode(errors="replace")
    return sum(line.startswith("GPU ") for line in listed.splitlines())


def play(devices, minutes):
    """Returns the case for the results file."""
    options = torture.parse(["--gpu", "--devices", str(devices), "--minutes", str(minutes), "--most", "3",
                             "--jobs", str(min(JOBS, os.cpu_count() or 1)), "--patience", str(PATIENCE)])  # fmt: skip
    failures, played, seconds = torture.run(options)
    detail = f"{played} seeds in {seconds:.0f} s, {len(failures)} failed"
    detail += "".join(f"\n{why} (seed {seed}, {kind})\n" + "\n".join(said.rstrip().splitlines()[-LINES:]) for seed, kind, why, said in failures)
    return {"name": f"torture.{devices}_gpu", "ok": not failures and played > 0, "detail": detail}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("CUFENCE_TORTURE_MINUTES", "4")))
    parser.add_argument("--devices", type=int, nargs="+", choices=(1, 2), default=(1, 2), help="on so many GPUs each; where there are fewer, none")
    parser.add_argument("--json", type=pathlib.Path, required=True)
    options = parser.parse_args()
    cases = [play(devices, options.minutes) for devices in options.devices if devices <= count_gpus()]
    for case in cases:
        print(f"{'ok' if case['ok'] else 'FAILED':8}{case['name']}: {case['detail']}", flush=True)
    options.json.write_text(json.dumps(cases, indent=1))
    return 0 if cases and all(case["ok"] for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
