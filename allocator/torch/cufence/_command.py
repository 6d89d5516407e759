"""Executes this package's program `cufence`, for the console script `cufence` and `python -m cufence`.

Imported when the interpreter starts: no slow imports here.
"""

from __future__ import annotations

import os
import sys

_PACKAGE = os.path.dirname(os.path.realpath(__file__))


def program() -> str:
    """Returns the program's path: next to the library that CUFENCE_LIBRARY names, else in the package, else in the build folder
    of a checkout."""
    named = os.environ.get("CUFENCE_LIBRARY")
    if named:
        return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(named))), "bin", "cufence")
    packaged = os.path.join(_PACKAGE, "bin", "cufence")
    built = os.path.join(_PACKAGE, *[os.pardir] * 3, "build", "bin", "cufence")
    return packaged if os.path.isfile(packaged) or not os.path.isfile(built) else os.path.realpath(built)


def become(arguments: list[str], environment: dict[str, str]) -> str:
    """Replaces this process by the program (execve). Returns only on failure, with a message that says why and what to do."""
    path = program()
    try:
        os.execve(path, ["cufence", *arguments], environment)
    except FileNotFoundError:
        return f"there is no {path}: reinstall cufence, or build it with './dev build' in a checkout"
    except OSError as error:
        return f"{path} cannot be run: {error.strerror}"


def main() -> None:
    sys.exit(f"cufence: {become(sys.argv[1:], dict(os.environ))}")
