"""Libraries that cut their memory into pieces themselves: a file for each, whose patch(module) is applied right after the import of
the library's modules in BYPASSED. Their pools are bypassed under `cufence run`, which changes nothing that a correct program sees."""

from __future__ import annotations

import importlib

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

BYPASSED = {"rmm": ("rmm",), "cupy": ("cupy",)}


def patch_of(name: str) -> Callable[[ModuleType], None]:
    """Returns the patch of an adapter, which is imported when it is needed."""

    def patch(module: ModuleType) -> None:
        importlib.import_module(f"{__name__}.{name}").patch(module)

    return patch


def patches() -> dict[str, Callable[[ModuleType], None]]:
    """Returns the patches by module."""
    return {module: patch_of(name) for name, modules in BYPASSED.items() for module in modules}
