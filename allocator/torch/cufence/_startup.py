"""What runs at the start of the interpreter, before torch can be imported; importing this module runs it.

cufence-startup.pth imports it where PyTorch's allocator settings or LD_PRELOAD name cufence, and so does
_bootstrap/sitecustomize.py under `cufence run`. It imports neither torch nor anything that takes time.

    backend:cufence asked for    the settings are rewritten for PyTorch, cufence's options checked and handed on, and where
                                 the preload library is missing the interpreter is started anew, once, with it
    preload library here         libraries that keep pools of their own are told not to, see _patches.py
"""

from __future__ import annotations

import os
import sys

from . import _configuration, _preload

TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import ModuleType

OPTIONS = "CUFENCE_OPTIONS"
RESTARTED = "CUFENCE_RESTARTED"  # "cufence <pid>" from the restart to the start that it leads to
USAGE_STATUS = 2

# Memory of these libraries comes from pools of their own unless they are told otherwise before they start.
SETTINGS = {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform", "TF_GPU_ALLOCATOR": "cuda_malloc_async"}


def _say(message: str) -> None:
    os.write(2, f"cufence: {message}\n".encode(errors="backslashreplace"))


def _refuse(message: str) -> None:
    """Ends the process: an exception would be swallowed by site.py, and the program would run unguarded."""
    _say(message)
    sys.stdout.flush()
    os._exit(USAGE_STATUS)


def _library_or_refuse() -> ModuleType:
    """The module _library, once the library is loaded."""
    from . import _library

    try:
        _library.load()
    except _library.Error as error:
        _refuse(str(error))
    return _library


def _check(options: str, source: str) -> None:
    _library = _library_or_refuse()
    library = _library.load()
    if library.cufence_check_options(options.encode(errors="surrogateescape")) != _library.OK:
        _refuse(f"{source}: {library.cufence_error_detail().decode(errors='replace')}")


def _hand_on(variable: str, options: list[str], others: list[str]) -> None:
    """Checks cufence's options, and writes them and PyTorch's settings into the environment."""
    before = os.environ.get(OPTIONS, "")
    _check(",".join(options), variable)
    _check(before, OPTIONS)
    text = _configuration.merged(options, before)
    _check(text, f"{OPTIONS} and {variable} together")
    if text:
        os.environ[OPTIONS] = text
    os.environ[variable] = _configuration.for_torch(others)


def _preload_file() -> str:
    file = _library_or_refuse().path().with_name(_preload.FILE_NAME)
    if not file.is_file():
        _refuse(f"{file} is missing: the installation is incomplete")
    if any(letter in str(file) for letter in " :"):
        _refuse(f"{_preload.VARIABLE} cannot name '{file}', because of the blank or colon in it: install cufence elsewhere")
    return str(file)


def _check_interpreter(variable: str) -> None:
    why = None
    if not hasattr(sys, "orig_argv"):
        why = f"Python {sys.version.split()[0]} does not keep its arguments (3.10 and later do)"
    elif not sys.executable or not os.path.samefile("/proc/self/exe", sys.executable):
        why = f"this program is not the Python interpreter {sys.executable or '(unknown)'}"
    if why:
        _refuse(
            f"{variable} asks for backend:{_configuration.BACKEND}, which starts the interpreter anew with "
            f"{_preload.FILE_NAME}, but {why}. Start the program under 'cufence run' instead"
        )


def _restart(variable: str) -> None:
    _check_interpreter(variable)
    os.environ[_preload.VARIABLE] = _preload.prepended(_preload_file())
    os.environ[RESTARTED] = f"{_configuration.BACKEND} {os.getpid()}"
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ)


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
        _refuse(f"the interpreter was started anew with {_preload.FILE_NAME}, but {why}: nothing would be guarded")
    if _preload.named():
        _say(f"warning: LD_PRELOAD names {_preload.named()}, but {why}: nothing is guarded in process {os.getpid()}")


def run() -> None:
    _check_preloaded(_is_restarted())
    is_preloaded = _preload.path() is not None
    variable, text = _configuration.in_force(os.environ)
    passed_over = _configuration.passed_over(os.environ)
    if passed_over:
        _say(
            f"warning: {passed_over} asks for backend:{_configuration.BACKEND}, but PyTorch reads {variable} alone where both "
            f"are set: set one of them"
        )
    if variable and _configuration.BACKEND in text:
        try:
            is_wanted, options, others = _configuration.split(text)
        except _configuration.Mistake as mistake:
            _refuse(f"{variable}: {mistake}")
        else:
            if is_wanted:
                _hand_on(variable, options, others)
                if not is_preloaded:
                    _restart(variable)
    if is_preloaded:
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        from . import _patches

        _patches.install()


run()
