"""The environment under which a program is guarded from its start: cufence's options, PyTorch's settings, the preload library.

Imported at the start of the interpreter: no imports of weight.
"""

from __future__ import annotations

import os

from . import _configuration, _preload

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from pathlib import Path
    from types import ModuleType

OPTIONS = "CUFENCE_OPTIONS"

# JAX and TensorFlow keep pools of their own unless they are told before they start to ask the driver for every buffer.
JAX_ALLOCATOR, JAX_PREALLOCATES = "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE"
JAX_EXACT = "cuda_async"
TENSORFLOW_ALLOCATOR, TENSORFLOW_EXACT = "TF_GPU_ALLOCATOR", "cuda_malloc_async"


class Refusal(Exception):
    """It cannot be done; the message names what is wrong and the way out."""


def _library() -> ModuleType:
    """The module _library, once the library is open."""
    from . import _library as module

    try:
        module.load()
    except module.Error as error:
        raise Refusal(str(error)) from error
    return module


def check(options: str, source: str) -> None:
    """Raises Refusal, naming the source, where the library does not allow the options."""
    module = _library()
    library = module.load()
    if library.cufence_check_options(options.encode(errors="surrogateescape")) != module.OK:
        raise Refusal(f"{source}: {library.cufence_error_detail().decode(errors='replace')}")


def hand_on(environment: MutableMapping[str, str], source: str, options: list[str]) -> None:
    """Puts options behind those of CUFENCE_OPTIONS, so that they win. Raises Refusal for wrong ones, old or new."""
    before = environment.get(OPTIONS, "")
    check(",".join(options), source)
    check(before, OPTIONS)
    text = _configuration.merged(options, before)
    check(text, f"{OPTIONS} and {source} together")
    if text:
        environment[OPTIONS] = text


def _preload_file() -> Path:
    file: Path = _library().path().with_name(_preload.FILE_NAME)
    if not file.is_file():
        raise Refusal(f"{file} is missing: the installation is incomplete")
    if any(letter in str(file) for letter in " :"):
        raise Refusal(f"{_preload.VARIABLE} cannot name '{file}', for the blank or colon in it: install cufence elsewhere")
    return file


def preload(environment: MutableMapping[str, str]) -> None:
    """Has the loader put the preload library into programs that start with this environment. Raises Refusal."""
    environment[_preload.VARIABLE] = _preload.prepended(environment.get(_preload.VARIABLE, ""), str(_preload_file()))


def settle(environment: MutableMapping[str, str]) -> None:
    """Tells libraries with pools of their own to do without, where the user has not told them anything."""
    environment.setdefault(TENSORFLOW_ALLOCATOR, TENSORFLOW_EXACT)
    if environment.setdefault(JAX_ALLOCATOR, JAX_EXACT) == JAX_EXACT:
        environment.setdefault(JAX_PREALLOCATES, "false")


def guarded(options: list[str], source: str) -> dict[str, str]:
    """This process' environment, changed so that a program started with it is guarded. Raises Refusal."""
    environment = dict(os.environ)
    try:
        _, before, texts = _configuration.read(environment)
    except _configuration.Mistake as mistake:
        raise Refusal(str(mistake)) from mistake
    environment.update(texts)
    for variable, given in before.items():
        hand_on(environment, variable, given)
    hand_on(environment, source, options)
    preload(environment)
    settle(environment)
    return environment
