"""PyTorch's allocator settings ("key:value,key:[a:1,b:2]"): what they say to cufence, and what is left for PyTorch.

Pure: nothing here reads the environment or prints. Imported at the start of the interpreter: no imports of weight.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping

# PyTorch takes the first that is set, also when that is empty, and does not look at the other (read off 2.11).
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
BACKEND = "cufence"
BENEATH = "cudaMallocAsync"  # PyTorch's own back end that cufence works behind: it asks the driver for exact sizes
PREFIX = "cufence_"


class Mistake(Exception):
    """The settings are wrong; the message says what and how it is right."""


def in_force(environment: Mapping[str, str]) -> tuple[str | None, str]:
    """The variable that PyTorch reads, None if none is set, and its text."""
    for name in VARIABLES:
        if name in environment:
            return name, environment[name]
    return None, ""


def passed_over(environment: Mapping[str, str]) -> str | None:
    """The variable that asks for cufence in vain, because PyTorch does not read it."""
    name, _ = in_force(environment)
    for other in VARIABLES:
        if other != name and asks_for(environment.get(other, ""), BACKEND):
            return other
    return None


def items(text: str) -> list[str]:
    """Splits at the commas that no brackets hold, without blanks at the ends and without empty items."""
    found = [""]
    depth = 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth <= 0:
            found.append("")
        else:
            found[-1] += letter
    return [item.strip() for item in found if item.strip()]


def _pair(item: str) -> tuple[str, str]:
    key, _, value = item.partition(":")
    return key.strip(), value.strip()


def asks_for(text: str, backend: str) -> bool:
    """Whether the settings name this back end."""
    return ("backend", backend) in map(_pair, items(text))


def _option(key: str, value: str) -> str:
    name = key[len(PREFIX) :]
    if not name or not value:
        raise Mistake(f"'{key}:{value}' is not of the form {PREFIX}KEY:value, for example {PREFIX}uaf:strict")
    if "," in value:
        raise Mistake(f"{key}: the value '{value}' holds a comma, which an option of cufence cannot")
    return f"{name}={value}"


def split(text: str) -> tuple[bool, list[str], list[str]]:
    """Whether cufence is asked for; its options as "key=value"; and the other settings as they were written.

    Raises Mistake.
    """
    backends, options, others = [], [], []
    for item in items(text):
        key, value = _pair(item)
        if key == "backend":
            backends.append(value)
        elif key.startswith(PREFIX):
            options.append(_option(key, value))
        elif key == BACKEND:
            raise Mistake(f"'{item}': say backend:{BACKEND}, and give its options as {PREFIX}KEY:value")
        else:
            others.append(item)
    if BACKEND in backends and len(backends) > 1:
        raise Mistake(f"the back end is named {len(backends)} times ({', '.join(backends)}): name one")
    for backend in backends:
        if backend != BACKEND and backend.lower().startswith(BACKEND):
            raise Mistake(f"there is no back end '{backend}': write backend:{BACKEND}")
    is_wanted = BACKEND in backends
    if options and not is_wanted:
        raise Mistake(f"{PREFIX}{options[0].replace('=', ':')} is an option of backend:{BACKEND}, which is not asked for")
    return is_wanted, options, [*(f"backend:{backend}" for backend in backends if backend != BACKEND), *others]


def for_torch(others: list[str]) -> str:
    """The settings that PyTorch gets: its own back end and whatever else the user has set.

    PyTorch 2.11 takes every key that it knows with this back end too; with those that only its own allocator heeds it says
    so in a warning, and a key that it does not know it refuses as it always does.
    """
    return ",".join([f"backend:{BENEATH}", *others])


def merged(options: list[str], before: str) -> str:
    """CUFENCE_OPTIONS with the options of the settings behind those that stood there: the last of a key counts."""
    return ",".join(filter(None, [before.strip().rstrip(","), *options]))


def options(text: str) -> dict[str, str]:
    """CUFENCE_OPTIONS as key -> value; the last of a key counts."""
    pairs = (item.partition("=") for item in text.split(",") if item.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}
