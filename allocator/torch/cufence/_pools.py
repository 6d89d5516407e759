"""The pools of CuPy, which cut their pieces from larger blocks, are bypassed under `cufence run`, so that each piece gets
guards of its own. That changes nothing which a correct program sees, but for the pools' figures and limits."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


def _pool_class(pool: Any, direct: Any) -> Any:
    class MemoryPool(pool):  # type: ignore[misc]
        cufence_before = pool

        def __init__(self, allocator: Any = None) -> None:
            super().__init__(*([] if allocator is None else [allocator]))
            self._below = direct if allocator is None else allocator

        def malloc(self, size: int) -> Any:
            return self._below(size)

    return MemoryPool


def _patch_cupy(module: ModuleType) -> None:
    """Its pools, which cut arrays from larger blocks, give way to one allocation per array: by the stream-ordered allocator, or by
    what a pool of the program's own was made over. The pools' figures are then 0, and their limits are not enforced."""
    cuda: Any = module.cuda
    direct = getattr(cuda, "malloc_async", None)
    pool = getattr(cuda, "MemoryPool", None)
    if pool is not None and not hasattr(pool, "cufence_before"):
        ours = _pool_class(pool, direct or cuda.memory._malloc)

        def bypassed(allocator: Any) -> Any:
            owner = getattr(allocator, "__self__", None)
            return direct if isinstance(owner, pool) and not isinstance(owner, ours) else allocator

        def wrap(before: Any) -> Any:
            return lambda allocator=None: before(bypassed(allocator))

        cuda.MemoryPool = ours  # that of cuda.memory is a C type, which compiled modules of CuPy's look for by this name
        for holder in (cuda, cuda.memory):
            for name in ("set_allocator", "using_allocator"):
                if hasattr(holder, name):
                    setattr(holder, name, wrap(getattr(holder, name)))
    cuda.set_allocator(direct)


def _careful(patch: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    """Another version of the library may look different: its import must not fail, but the user is told."""

    def apply(module: ModuleType) -> None:
        try:
            patch(module)
        except Exception as error:
            import warnings

            text = f"cufence: the pools of this version of {module.__name__} are not known ({error}): overruns inside them are not seen"
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    return apply


PATCHES = {"cupy": _careful(_patch_cupy)}
