"""Converts keyword arguments of enable() to the option string of cufence_init() and back. The library checks them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (int, str)):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    raise ValueError(f"option {key}: {value!r} is a {type(value).__name__}; give a string, a whole number or a bool")


def option_string(options: Mapping[str, Any]) -> str:
    """Returns "key=value,key=value", sorted by key, so that equal options give equal strings. Raises ValueError."""
    pairs = []
    for key, value in sorted(options.items()):
        text = _value(key, value)
        for letter in (",", "\0"):
            if letter in text:
                raise ValueError(f"option {key}: {text!r} holds {letter!r}, which an option's value cannot")
        pairs.append(f"{key}={text}")
    return ",".join(pairs)


def pairs(text: str) -> dict[str, str]:
    """Splits an option string that the library has accepted into key -> value. The last value of a key wins."""
    items = (item.partition("=") for item in text.split(",") if item.strip())
    return {key.strip(): value.strip() for key, _, value in items}
