"""What runs at the start of the interpreter, before torch can be imported; importing this module runs it.

cufence-startup.pth imports it where PyTorch's allocator settings or LD_PRELOAD name cufence, and so does
_bootstrap/sitecustomize.py under `cufence run`. It imports neither torch nor anything that takes time.

    the settings name cufence    `cufence run --if-asked` takes the process over and executes the interpreter again, once, with the
                                 same arguments. It reads the settings, checks them, and sets up the environment
    that cannot be done          the process ends; a program with Python inside it (gdb, vim, uwsgi), which may have no use for
                                 PyTorch, goes on, its environment as it was, and `import torch` fails
    preload library here         libraries that keep pools of their own are told not to, see _patches.py
"""

from __future__ import annotations

import os
import sys

from . import _command, _preload

RESTARTED = "CUFENCE_RESTARTED"  # "cufence <pid>" from here to the start that `cufence run` leads to
USAGE_STATUS = 2


class Refusal(Exception):
    """It cannot be done; the message names what is wrong and the way out."""


def _say(message: str) -> None:
    os.write(2, f"cufence: {message}\n".encode(errors="backslashreplace"))


def _is_this(executable: str) -> bool:
    try:
        return bool(executable) and os.path.samefile("/proc/self/exe", executable)
    except OSError:
        return False


def _is_command(arguments: list[str] | None) -> bool:
    """Whether the process was started with these arguments, as far as that is known."""
    if arguments is None:
        return True
    try:
        with open("/proc/self/cmdline", "rb") as file:
            return file.read().split(b"\0")[1:-1] == [os.fsencode(argument) for argument in arguments[1:]]
    except OSError:
        return True


def _is_embedded() -> bool:
    """Whether the process is another program, with Python inside it."""
    return not _is_this(sys.executable) or not _is_command(getattr(sys, "orig_argv", None))


def _refuse(message: str) -> None:
    """Ends the process: an exception would be swallowed by site.py, and the program would run unguarded."""
    if _is_embedded():
        from . import _patches

        _patches.refuse("torch", f"cufence: {message}")
        return
    _say(message)
    sys.stdout.flush()
    os._exit(USAGE_STATUS)


def _check_interpreter(variable: str) -> None:
    why = None
    if _is_embedded():
        why = f"this program is not the Python interpreter {sys.executable or '(unknown)'}"
    elif not hasattr(sys, "orig_argv"):
        why = f"Python {sys.version.split()[0]} does not keep its arguments (3.10 and later do)"
    if why:
        raise Refusal(
            f"{variable} names cufence, for which the interpreter has to be executed again under 'cufence run', but {why}. "
            "Start the program under 'cufence run' instead"
        )


def _check_preloaded(is_restarted: bool) -> None:
    named = _preload.named()
    if not named or _preload.path():
        return
    why = (
        "the dynamic loader has not taken it (see its message above, if there is one; it passes LD_PRELOAD over in a "
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
    # The mark goes, so that no child inherits it: a process that has another's would never hand over.
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
