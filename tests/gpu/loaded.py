"""Faults under load: many programs at a time, each with one write past its buffer. None may end as if nothing had happened.

    python3 tests/gpu/loaded.py [--build FOLDER] [--json FILE] [--faults 500] [--jobs 20] [NAME...]

The program synchronises its context, one stream, or nothing before it ends well. A driver under load calls the work done, and begins its
dump seconds later, or never. Needs libcuda with its compiler of PTX, and the build alone. Exit status: 0; 1 if a fault is lost; 2 without
a GPU.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import ctypes
import re
import subprocess
import sys
import time

from script import Cuda, run_script

BYTES = 12432
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry store_at(.param .u64 out, .param .u64 offset) {
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [offset];
  cvta.to.global.u64 %rd3, %rd1;
  add.u64 %rd4, %rd3, %rd2;
  st.global.u64 [%rd4], %rd2;
  ret;
}
"""
NAMES = ("context", "stream", "nothing")
OPTIONS = "uaf=strict,align=auto,explain=dump"


def play(name: str) -> None:
    cuda = Cuda().start()
    buffer, stream = ctypes.c_uint64(), ctypes.c_void_p()
    cuda("cuStreamCreate", ctypes.byref(stream), 1)
    cuda("cuMemAlloc_v2", ctypes.byref(buffer), BYTES)
    cuda.launch(cuda.kernel(PTX, b"store_at"), 1, 1, stream, buffer, ctypes.c_uint64(BYTES))
    if name != "nothing":
        error = cuda.library.cuCtxSynchronize() if name == "context" else cuda.library.cuStreamSynchronize(stream)
        print(f"synchronised: {error}", flush=True)


def kind_of(name: str, options: argparse.Namespace) -> tuple[str, str]:
    """Returns how the run has ended, and what it said."""
    command = [str(options.build / "bin" / "cufence"), "run", "--set", OPTIONS, "--", sys.executable, __file__, "--play", name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False)
    except subprocess.TimeoutExpired:
        return "HANGS", ""
    text = done.stdout
    if done.returncode == 0:
        return "LOST: status 0", text
    if re.search(r"SUMMARY: cufence: .*\bstore_at\b.*\bbuffer #1\b", text):
        return "reported" if name == "nothing" or "synchronised: 700" in text else "reported, but the call said success", text
    return "told without a report" if "faulted" in text else f"status {done.returncode}", text


def judge(name: str, options: argparse.Namespace) -> tuple[bool, str, list[str]]:
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(lambda _: kind_of(name, options), range(options.faults // len(NAMES))))
    kinds = collections.Counter(kind for kind, _ in runs)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    is_lost = any(not kind.startswith(("reported", "told")) for kind in kinds)
    samples = {kind: text for kind, text in runs if kind != "reported"}
    lines = [line for kind, text in samples.items() for line in (f"{kind}:", *text.splitlines()[-25:])]
    return not is_lost, f"{options.jobs} at a time in {time.monotonic() - began:.0f} s: {told}", lines


if __name__ == "__main__":
    sys.exit(run_script(__doc__, "loaded", NAMES, judge, play, numbers={"faults": 501, "jobs": 20}))
