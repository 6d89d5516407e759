"""The blocks of a cache, each of which is a row in several divisions: one of every layer, or of keys and of values."""

from __future__ import annotations

import warnings

from .. import _library, _regions

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any


class Blocks:
    """The divisions that no pool has yet, by their number of rows. Where one cannot be made (the memory is not guarded, or two
    divisions overlap), a warning says so, and the blocks are not followed."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._divisions: dict[int, dict[tuple[int, int], _regions.Regions]] = {}

    def divide(self, tensor: Any, rows: int, name: str) -> None:
        """Divides the memory of a tensor. The same bytes are divided once: layers may share them."""
        known = self._divisions.setdefault(rows, {})
        where = _regions.memory_of(tensor)
        if where in known:
            return
        try:
            known[where] = _regions.regions(tensor, rows=rows, names=name)
        except (ValueError, _library.Error) as error:
            self.leave(name, str(error))

    def leave(self, name: str, why: str) -> None:
        warnings.warn(f"cufence: {name} of {self.what} is not followed: {why}", RuntimeWarning, stacklevel=4)

    def claim(self, rows: int) -> list[_regions.Regions]:
        """Returns those of that number, which are then the caller's: another pool may have as many rows in other memory, and what it
        frees must not be marked here."""
        return list(self._divisions.pop(rows, {}).values())
