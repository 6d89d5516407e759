"""Runs cufence._startup in interpreters that do not have the package: `cufence run` puts this folder into PYTHONPATH.

The sitecustomize that this one hides from the interpreter runs behind it.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))


def _load(name: str, spec: Any) -> None:
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _start_cufence() -> None:
    # The package alone, by its place: its folder's neighbours are packages of another interpreter.
    if "cufence" not in sys.modules:
        package = os.path.dirname(_HERE)
        file = os.path.join(package, "__init__.py")
        _load("cufence", importlib.util.spec_from_file_location("cufence", file, submodule_search_locations=[package]))
    importlib.import_module("cufence._startup")


def _start_hidden() -> None:
    folders = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", folders)
    if spec is not None and spec.loader is not None:
        _load("sitecustomize", spec)


try:
    _start_cufence()
finally:
    _start_hidden()
