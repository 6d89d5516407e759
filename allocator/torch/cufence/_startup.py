"""What runs at the start of the interpreter, before torch can be imported; importing this module runs it.

cufence-startup.pth imports it where PyTorch's allocator settings or LD_PRELOAD name cufence, and so does
_bootstrap/sitecustomize.py under `cufence run`. It imports neither torch nor anything that takes time.

    backend:cufence asked for    the settings are rewritten for PyTorch, cufence's options checked and handed on, and where
                                 the preload library is missing the interpreter is started anew, once, with it
    it cannot be had             the process ends; a program with Python inside it (gdb, vim, uwsgi), which may have no use for
                                 PyTorch, goes on, its environment as it was, and `import torch` fails
    preload library here         libraries that keep pools of their own are told not to, see _patches.py
"""

from __future__ import annotations

import os
import sys

from . import _configuration, _environment, _preload

RESTARTED = "CUFENCE_RESTARTED"  # "cufence <pid>" from the restart to the start that it leads to
USAGE_STATUS = 2


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
        raise _environment.Refusal(
            f"{variable} asks for backend:{_configuration.BACKEND}, which starts the interpreter anew with "
            f"{_preload.FILE_NAME}, but {why}. Start the program under 'cufence run' instead"
        )


def _restart() -> None:
    _environment.preload(os.environ)
    os.environ[RESTARTED] = f"{_configuration.BACKEND} {os.getpid()}"
    sys.stdout.flush()
    try:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ)
    except OSError as error:
        raise _environment.Refusal(f"{sys.executable} cannot be started anew: {error.strerror}") from error


def _is_restarted() -> bool:
    """Whether this start is the one that _restart() has led to; forgets the mark, so that no child inherits it."""
    return os.environ.pop(RESTARTED, "") == f"{_configuration.BACKEND} {os.getpid()}"


def _check_preloaded(is_restarted: bool) -> None:
    if _preload.path():
        return
    why = (
        "the dynamic loader has not taken it (see its message above, if there is one; it passes LD_PRELOAD over in a "
        "program with set-uid or capabilities, in a static one, and in one of another C library or architecture)"
    )
    if is_restarted:
        raise _environment.Refusal(
            f"the interpreter was started anew with {_preload.FILE_NAME}, but {why}: nothing would be guarded"
        )
    if _preload.named():
        _say(f"warning: LD_PRELOAD names {_preload.named()}, but {why}: nothing is guarded in process {os.getpid()}")


def _heed_settings() -> None:
    if not any(_configuration.BACKEND in os.environ.get(name, "") for name in _configuration.VARIABLES):
        return
    try:
        is_wanted, options, texts = _configuration.read(os.environ)
    except _configuration.Mistake as mistake:
        raise _environment.Refusal(str(mistake)) from mistake
    if not is_wanted:
        return
    if not _preload.path():
        _check_interpreter(next(iter(options)))
    for variable, given in options.items():
        _environment.hand_on(os.environ, variable, given)
    os.environ.update(texts)
    if not _preload.path():
        _restart()


def run() -> None:
    try:
        _check_preloaded(_is_restarted())
        _heed_settings()
    except _environment.Refusal as refusal:
        _refuse(str(refusal))
    if _preload.path():
        _environment.settle(os.environ)
        from . import _patches

        _patches.install()


run()
