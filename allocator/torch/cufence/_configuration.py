"""PyTorch's allocator settings ("key:value,key:[a:1,b:2]"): what they say to cufence, and what is left for PyTorch.

Pure: nothing here reads the environment or prints. Imported at the start of the interpreter: no imports of weight.

`cufence run` reads the same settings (allocator/cli/alloc_conf.c); tests/fixtures/alloc_conf.txt holds both to one grammar.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping

# PyTorch 2.11 takes the first that is set, also when that is empty, and does not look at the other. Before 2.9 it knew the first
# one only; 2.9 and 2.10 prefer the second. So cufence reads both and sets both. The first one's options win.
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
BACKEND = "cufence"
BENEATH = "cudaMallocAsync"  # PyTorch's own back end that cufence works behind: it asks the driver for exact sizes
PREFIX = "cufence_"
BLANKS = " \t\n\v\f\r"  # PyTorch passes over them wherever they are; older versions split at them


class Mistake(Exception):
    """The settings are wrong; the message says what and how it is right."""


def in_force(environment: Mapping[str, str]) -> tuple[str | None, str]:
    """The variable that PyTorch reads, None if none is set, and its text."""
    for name in VARIABLES:
        if name in environment:
            return name, environment[name]
    return None, ""


def items(text: str) -> list[str]:
    """Splits at the commas outside of lists, which do not nest; without blanks, and without empty items."""
    found = [""]
    is_in_list = False
    for letter in text:
        if letter in "[]":
            is_in_list = letter == "["
        if letter == "," and not is_in_list:
            found.append("")
        else:
            found[-1] += letter
    return [item.strip(BLANKS) for item in found if item.strip(BLANKS)]


def _pair(item: str) -> tuple[str, str]:
    key, _, value = item.partition(":")
    return key.strip(BLANKS), value.strip(BLANKS)


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
    """Whether cufence is asked for; its options as "key=value"; and the other settings, without blanks.

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
            others.append("".join(letter for letter in item if letter not in BLANKS))
    if BACKEND in backends and len(backends) > 1:
        raise Mistake(f"the back end is named {len(backends)} times ({', '.join(backends)}): name one")
    for backend in backends:
        if backend != BACKEND and backend.lower().startswith(BACKEND):
            raise Mistake(f"there is no back end '{backend}': write backend:{BACKEND}")
    return BACKEND in backends, options, [*(f"backend:{backend}" for backend in backends if backend != BACKEND), *others]


def _is_backend(item: str) -> bool:
    return item.startswith("backend:")


def read(environment: Mapping[str, str]) -> tuple[bool, dict[str, list[str]], dict[str, str]]:
    """Of both variables: whether cufence is asked for; its options, by variable, the last win; what each is to be for PyTorch.

    Raises Mistake, which names the variable.
    """
    options, others = {}, {}
    wanting, elsewhere = [], []
    for name in reversed(VARIABLES):
        if name not in environment:
            continue
        try:
            is_wanted, options[name], others[name] = split(environment[name])
        except Mistake as mistake:
            raise Mistake(f"{name}: {mistake}") from None
        wanting += [name] if is_wanted else []
        elsewhere += [f"{name} names {item}" for item in others[name] if _is_backend(item) and item != f"backend:{BENEATH}"]
        others[name] = [item for item in others[name] if not _is_backend(item)]
    for name, given in options.items():
        if given and not wanting:
            option = given[0].replace("=", ":")
            raise Mistake(f"{name}: {PREFIX}{option} is an option of backend:{BACKEND}, which is not asked for")
    if wanting and elsewhere:
        raise Mistake(f"{wanting[0]} names backend:{BACKEND}, but {elsewhere[0]}: name one")
    given_others = list(others.values())
    texts = {name: for_torch(others.get(name, given_others[-1] if given_others else [])) for name in VARIABLES}
    return bool(wanting), options, texts


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
