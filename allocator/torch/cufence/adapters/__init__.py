"""Libraries that cut their memory into pieces themselves: a file for each, whose patch(module) is applied right after the
import of the library's modules in MODULES.

RMM and CuPy are always patched under `cufence run`: their pools are bypassed, which changes nothing that a correct program
sees. vLLM and SGLang are if adapt() asks for it, in this process and in those that it starts: their block pools then tell
cufence what they hand out."""

from __future__ import annotations

import importlib
import os
import sys

from .. import _preload

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

BYPASSED = {"rmm": ("rmm",), "cupy": ("cupy",)}
MODULES = BYPASSED | {
    "vllm": ("vllm.v1.core.block_pool", "vllm.v1.core.kv_cache_manager", "vllm.v1.worker.utils"),
    "sglang": ("sglang.srt.mem_cache.allocator.token", "sglang.srt.mem_cache.allocator.paged"),
}
VARIABLE = "CUFENCE_ADAPT"  # names the adapters that adapt() chose, for the processes that this one starts


def patch_of(name: str) -> Callable[[ModuleType], None]:
    """Returns the patch of an adapter, which is imported when it is needed."""

    def patch(module: ModuleType) -> None:
        importlib.import_module(f"{__name__}.{name}").patch(module)

    return patch


def patches() -> dict[str, Callable[[ModuleType], None]]:
    """Returns the patches by module: of the pools that are bypassed, and of what an outer process has chosen."""
    names = [name for name in os.environ.get(VARIABLE, "").split(",") if name in MODULES]
    return {module: patch_of(name) for name in [*BYPASSED, *names] for module in MODULES[name]}


def adapt(*names: str) -> None:
    """Follows what these libraries do inside their memory: "rmm", "cupy", "vllm", "sglang".

    Call it before the library is imported. `cufence docs regions` says what each does. Raises ValueError for another name,
    RuntimeError if it comes too late, or for "rmm" and "cupy" outside of `cufence run`, whose memory cufence then does not see.
    """
    from .. import _patches

    for name in names:
        if name not in MODULES:
            raise ValueError(
                f"cufence.adapt({name!r}): there are adapters for {', '.join(MODULES)}; for others see cufence.regions()"
            )
        if name in BYPASSED:
            if not _preload.path():
                raise RuntimeError(
                    f"cufence.adapt({name!r}): {name} allocates from the driver; start the program under 'cufence run'"
                )
            continue  # done at its import
        late = [module for module in MODULES[name] if module in sys.modules]
        chosen = [word for word in os.environ.get(VARIABLE, "").split(",") if word]
        if late and name not in chosen:
            raise RuntimeError(f"cufence.adapt({name!r}) comes too late: {late[0]} is imported already; call it before")
        if name not in chosen:
            os.environ[VARIABLE] = ",".join([*chosen, name])
        _patches.PATCHES.update({module: patch_of(name) for module in MODULES[name]})
    _patches.install()
