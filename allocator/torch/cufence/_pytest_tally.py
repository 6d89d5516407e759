"""What the processes of the tests tell of themselves (allocator/base/tally.h), and what pytest says of it at its end."""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from pathlib import Path

VARIABLE = "CUFENCE_TALLY"
HEAD = b"cufence tally\n"
STATUS = 87  # docs/exit-status.md

# The letters of enum tally_letter.
NO_DEVICE, STARTED, UNGUARDED, CONTEXT, GUARDED = "niucg"


def begin(file: Path, environment: dict[str, str]) -> None:
    """Makes the tally, and names it in the environment, in front of those that are there."""
    file.write_bytes(HEAD)
    environment[VARIABLE] = ":".join(filter(None, [str(file), os.environ.get(VARIABLE)]))


def read(file: Path) -> dict[str, int]:
    """Returns how many processes have written each letter."""
    try:
        return dict(Counter(file.read_bytes()[len(HEAD) :].decode(errors="replace")))
    except OSError:
        return {}


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def sentence(counts: dict[str, int]) -> str:
    """Returns what was guarded, or why nothing was."""
    used, guarded = counts.get(CONTEXT, 0), counts.get(GUARDED, 0)
    if guarded:
        return f"GPU memory was guarded in {guarded} of {used} process{'es' if used > 1 else ''} that used CUDA"
    if used:
        why = "every allocation was left to the driver, as said above"
    elif UNGUARDED in counts:
        why = "cufence could not start, as said above"
    elif STARTED in counts:
        why = "CUDA was initialised, but no test created a context"
    elif NO_DEVICE in counts:
        why = "CUDA could not be initialised: cuInit failed; `cufence doctor` says more"
    elif not _has_driver():
        why = "no test used CUDA, and the loader finds no CUDA driver (libcuda.so.1); `cufence doctor` says more"
    else:
        why = "no test used CUDA"
    return f"NOTHING WAS GUARDED: {why}"
