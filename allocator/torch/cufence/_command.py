"""The console script `cufence`, and `python -m cufence`: the program that the package holds takes this process over."""

from __future__ import annotations

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "cufence")


def main() -> None:
    try:
        os.execv(PROGRAM, ["cufence", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"cufence: {PROGRAM} cannot be run: {error.strerror}; in a checkout, run build/bin/cufence")
