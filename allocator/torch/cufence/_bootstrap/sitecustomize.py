"""Runs cufence._startup in interpreters that do not have the package: `cufence run` puts this folder into PYTHONPATH.

Then it leaves sys.path, and the sitecustomize that it hides from the interpreter runs. Imports nothing of weight.
"""

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _start_cufence() -> None:
    # The package's folder is on the path for this import alone: its neighbours are packages of another interpreter.
    before = sys.path[:]
    sys.path.insert(0, os.path.dirname(os.path.dirname(_HERE)))
    try:
        import cufence._startup  # noqa: F401
    finally:
        sys.path[:] = before


def _start_hidden() -> None:
    ours = sys.modules.pop(__name__)
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != _HERE]
    try:
        import sitecustomize  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = ours  # there is no other


try:
    _start_cufence()
finally:
    _start_hidden()
