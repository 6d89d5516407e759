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


def _warn(name: str, why: str) -> None:
    import warnings

    loss = "overruns inside its pools are not seen" if name in BYPASSED else "its cache is not followed"
    warnings.warn(f"cufence: this version of {name} is not what the adapter was made for ({why}): {loss}", RuntimeWarning, stacklevel=3)


def patch_of(name: str) -> Callable[[ModuleType], None]:
    """Returns the patch of an adapter, which is imported when it is needed. Another version of the library may look different: its
    import must not fail, but whoever asked for the adapter is told."""

    def patch(module: ModuleType) -> None:
        try:
            importlib.import_module(f"{__name__}.{name}").patch(module)
        except Exception as error:
            _warn(name, f"{module.__name__}: {error}")

    return patch


def _check(package: ModuleType) -> None:
    """After the import of a package: whether it has the modules whose import the adapter waits for."""
    name = package.__name__
    for module in MODULES[name]:
        paths = [os.path.join(folder, *module.split(".")[1:]) + ".py" for folder in package.__path__]
        if paths and not any(map(os.path.exists, paths)):
            _warn(name, f"it has no {module}")
            return


def patches() -> dict[str, Callable[[ModuleType], None]]:
    """Returns the patches by module: of the pools that are bypassed, and of what an outer process has chosen."""
    names = [name for name in os.environ.get(VARIABLE, "").split(",") if name in MODULES]
    return {name: _check for name in names} | {module: patch_of(name) for name in [*BYPASSED, *names] for module in MODULES[name]}


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
        _patches.PATCHES.update({name: _check} | {module: patch_of(name) for module in MODULES[name]})
    _patches.install()
