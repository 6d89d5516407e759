"""Patches other libraries for use with cufence, right after the program imports them.

Imports none of them itself: a finder at the front of sys.meta_path waits for the modules in PATCHES.
"""

from __future__ import annotations

import os
import sys

from . import _pools, _preload
from ._options import pairs

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_has_warned = False


def _warn_of_graph_trees() -> None:
    global _has_warned
    if _has_warned:
        return
    _has_warned = True
    import warnings

    warnings.warn(
        'cufence: torch.compile runs without CUDA graphs here, also in mode="reduce-overhead": their trees need checkpoints '
        "of the allocator that PyTorch has for its native one alone. The kernels are the same; launches cost more.",
        RuntimeWarning,
        stacklevel=3,
    )


def _attempt(patch: Callable[[Any], None], thing: Any) -> None:
    """Applies a patch to a module, or looks at an object of it. Ignores errors: another version of the library may look different,
    and its import must not fail."""
    try:
        patch(thing)
    except Exception:
        import logging

        logging.getLogger("cufence").debug("%s does not find what it was made for", patch.__name__, exc_info=True)


def _replace(module: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    before = getattr(module, name)
    if not hasattr(before, "cufence_before"):
        after = wrap(before)
        after.cufence_before = before
        setattr(module, name, after)


def _are_graphs_refused(is_cuda: bool = True) -> bool:
    """Returns whether graphs would need trees that PyTorch does not have here, and warns of that; is_cuda: graphs of CUDA's."""
    if sys.modules["torch"].cuda.get_allocator_backend() == "native":
        return False
    if is_cuda:
        _warn_of_graph_trees()
    return True


def _without_graph_trees(module: ModuleType) -> Callable[[Any], Any]:
    """Wraps a step that puts a compiled graph under CUDA graph trees: the graph then runs without them, as PyTorch does where
    they do not apply."""

    def wrap(before: Any) -> Any:
        def after(example_inputs: Any, compiled_graph: Any, cudagraphs: Any, *others: Any, **named: Any) -> Any:
            needs_trees = module.config.triton.cudagraph_trees
            if not needs_trees or not _are_graphs_refused("cuda" in compiled_graph.device_types):
                return before(example_inputs, compiled_graph, cudagraphs, *others, **named)
            cudagraphs.value = False  # a BoxedBool that later steps and the backward graph read
            return None

        return after

    return wrap


def _patch_output_code(module: ModuleType) -> None:
    for name in ("cudagraph_post_compile", "cudagraph_partition_post_compile"):
        _replace(module, name, _without_graph_trees(module))


def _patch_cudagraph_trees(module: ModuleType) -> None:
    """Covers callers that don't use output_code, such as torch.compile(backend="cudagraphs")."""

    def wrap(before: Any) -> Any:
        def after(model: Any, *others: Any, **named: Any) -> Any:
            return model if _are_graphs_refused() else before(model, *others, **named)

        return after

    _replace(module, "cudagraphify_impl", wrap)


def _check_back_end(module: ModuleType) -> None:
    """Warns if PyTorch uses its native back end: a program that sets the variable itself would otherwise run unguarded without
    any message."""
    from . import _allocator

    if _allocator.is_installed() or module.cuda.get_allocator_backend() != "native":
        return
    import warnings

    variable, text = _preload.settings()
    what = f"{variable}={text}" if variable else f"neither {' nor '.join(_preload.SETTINGS)} is set"
    warnings.warn(
        f"cufence: PyTorch's back end is native ({what}): it cuts tensors from larger blocks, where overruns are not seen. "
        f"If the program sets the variable itself, have it keep {_preload.BENEATH}.",
        RuntimeWarning,
        stacklevel=2,
    )


def _patch_reads(module: ModuleType) -> None:
    """With streams=on+host, what reads a tensor of the host asks whether a copy to it is done. A compiler that follows the code does
    not see that."""
    import functools

    from . import _library

    check = _library.load().cufence_check_host

    def wrap(before: Any) -> Any:
        name = f"Tensor.{before.__name__}".encode()

        @functools.wraps(before)
        def after(tensor: Any, *others: Any, **named: Any) -> Any:
            if not module.compiler.is_compiling() and type(tensor) is module.Tensor and tensor.device.type == "cpu":
                storage = tensor.untyped_storage()
                check(storage.data_ptr(), storage.nbytes(), name)
            return before(tensor, *others, **named)

        return after

    for name in ("numpy", "item", "tolist"):
        _replace(module.Tensor, name, wrap)


def _patch_torch(module: ModuleType) -> None:
    from . import _allocator, _tell

    if not _preload.path():
        return
    _tell.install()
    if pairs(os.environ.get("CUFENCE_OPTIONS", "")).get("streams") == "on+host":
        _patch_reads(module)
    if module.version.cuda is not None:
        _allocator.install_or_say(module)
        _check_back_end(module)


def _followed_by(tell: Callable[[Any], None]) -> Callable[[Any], Any]:
    """Wraps a method that loads a kernel: afterwards, `tell` gets its object. Whatever goes wrong there is not the program's."""

    def wrap(before: Any) -> Any:
        def after(self: Any, *others: Any, **named: Any) -> Any:
            found = before(self, *others, **named)
            _attempt(tell, self)
            return found

        return after

    return wrap


def _patch_kernels(module: ModuleType) -> None:
    """Reports get the names of arguments. A program that uses Triton, numba or Warp need not have PyTorch."""
    from . import _signatures, _tell

    if not _preload.path():
        return
    _tell.install()
    if module.__name__ in _signatures.METHODS:
        owner, name, tell = _signatures.METHODS[module.__name__]
        _replace(getattr(module, owner), name, _followed_by(tell))


PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "torch": _patch_torch,
    "torch._inductor.output_code": _patch_output_code,
    "torch._inductor.cudagraph_trees": _patch_cudagraph_trees,
    "torch._inductor.runtime.triton_heuristics": _patch_kernels,
    "triton.compiler.compiler": _patch_kernels,
    "numba.cuda.dispatcher": _patch_kernels,
    "warp": _patch_kernels,
}


class _Finder:
    """Delegates to the other finders, and runs the patch after the module's code has run."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        patch = PATCHES.get(name)
        if patch is None:
            return None
        for finder in sys.meta_path:
            if not isinstance(finder, _Finder) and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    _follow(spec.loader, patch)
                    return spec
        return None


def _follow(loader: Any, patch: Callable[[ModuleType], None]) -> None:
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        execute(module)
        _attempt(patch, module)

    loader.exec_module = exec_module  # this instance only: each module has its own loader


def install() -> None:
    """Installs the finder, and patches modules that are already imported. Further calls do nothing."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    if _preload.path():  # otherwise what these libraries take from the driver is unguarded
        PATCHES.update(_pools.PATCHES)
    for name, patch in PATCHES.items():
        if name in sys.modules:
            _attempt(patch, sys.modules[name])


class _Refuser:
    def __init__(self, name: str, message: str) -> None:
        self.name, self.message = name, message

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == self.name:
            raise ImportError(self.message, name=name)


def refuse(name: str, message: str) -> None:
    """Makes the import of a module fail with this message."""
    sys.meta_path.insert(0, _Refuser(name, message))  # type: ignore[arg-type]
