"""Runs when the interpreter starts, before torch can be imported. Importing this module runs it.

cufence-startup.pth imports it if PyTorch's allocator settings or LD_PRELOAD name cufence; _bootstrap/sitecustomize.py imports
it under `cufence run`. It imports neither torch nor any slow module.

    settings name cufence     executes `cufence run --if-asked`, which reads and checks the settings, sets up the environment
                              and re-executes the interpreter once with the same arguments, in the same process
    that fails                ends the process. A program that embeds Python (gdb, vim, uwsgi) may not need PyTorch: it
                              continues with its environment unchanged, and `import torch` fails
    preload library loaded    makes libraries with their own memory pools bypass them, see _patches.py
"""

from __future__ import annotations

import os
import sys

from . import _command, _preload

RESTARTED = "CUFENCE_RESTARTED"  # "cufence <pid>": set before execve, so that the re-executed interpreter recognises itself
USAGE_STATUS = 2


class Refusal(Exception):
    """Raised when cufence can't take effect; the message says why and what to do."""


def _say(message: str) -> None:
    os.write(2, f"cufence: {message}\n".encode(errors="backslashreplace"))


def _is_this(executable: str) -> bool:
    try:
        return bool(executable) and os.path.samefile("/proc/self/exe", executable)
    except OSError:
        return False


def _is_command(arguments: list[str]) -> bool:
    """Returns whether the process was started with these arguments; True if that can't be determined."""
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return file.read().split(b"\0")[1:-1] == [os.fsencode(argument) for argument in arguments[1:]]
    except OSError:
        return True


def _is_embedded() -> bool:
    """Returns whether the process is another program that embeds Python."""
    return not _is_this(sys.executable) or not _is_command(sys.orig_argv)


def _refuse(message: str) -> None:
    """Prints the message and exits: site.py would swallow an exception, and the program would run unguarded. In a program that
    embeds Python, makes `import torch` fail instead."""
    if _is_embedded():
        from . import _patches

        _patches.refuse("torch", f"cufence: {message}")
        return
    _say(message)
    sys.stdout.flush()
    os._exit(USAGE_STATUS)


def _check_interpreter(variable: str) -> None:
    if _is_embedded():
        raise Refusal(
            f"{variable} names cufence, for which the interpreter has to be executed again under 'cufence run', but this program is "
            f"not the Python interpreter {sys.executable or '(unknown)'}. Start the program under 'cufence run' instead"
        )


def _check_preloaded(is_restarted: bool) -> None:
    named = _preload.named()
    if not named or _preload.path():
        return
    why = (
        "the dynamic loader has not taken it (see its message above, if there is one; it ignores LD_PRELOAD in a "
        "program with set-uid or capabilities, in a static one, and in one of another C library or architecture)"
    )
    if is_restarted:
        raise Refusal(f"'cufence run' has put {named} into LD_PRELOAD, but {why}: nothing would be guarded")
    _say(f"warning: LD_PRELOAD names {named}, but {why}: nothing is guarded in process {os.getpid()}")


def _hand_over() -> None:
    variables = [name for name in _preload.SETTINGS if "cufence" in os.environ.get(name, "")]
    if not variables:
        return
    _check_interpreter(variables[0])
    sys.stdout.flush()
    environment = {**os.environ, RESTARTED: f"cufence {os.getpid()}"}
    raise Refusal(_command.become(["run", "--if-asked", "--", sys.executable, *sys.orig_argv[1:]], environment))


def run() -> None:
    # Remove the mark, so that no child process inherits it.
    is_restarted = os.environ.pop(RESTARTED, "") == f"cufence {os.getpid()}"
    try:
        _check_preloaded(is_restarted)
        if not is_restarted:
            _hand_over()
    except Refusal as refusal:
        _refuse(str(refusal))
    if _preload.path():
        from . import _patches

        _patches.install()


run()
