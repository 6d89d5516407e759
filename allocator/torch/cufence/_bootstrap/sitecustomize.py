"""Runs cufence._startup in interpreters without the package: `cufence run` puts this folder into PYTHONPATH.

Then removes the folder from sys.path and runs the sitecustomize that this one hides. No slow imports here.
"""

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _start_cufence() -> None:
    # The package's folder is on sys.path for this import only: it may hold other packages, of another interpreter.
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
