"""enable(): makes cufence PyTorch's CUDA allocator. With the preload library in the process it is that already."""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import _allocator, _library, _patches, _preload, _tell
from ._options import option_string, pairs

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._option_types import Options

# PyTorch calls these trace hooks right before it synchronises: registration -> scope of cufence_torch_before_sync().
_SYNC_HOOKS = {
    "register_callback_for_device_synchronization": 0,
    "register_callback_for_stream_synchronization": 1,
    "register_callback_for_event_synchronization": 2,
}

_OPTIONS = "CUFENCE_OPTIONS"

_lock = threading.Lock()


def is_enabled() -> bool:
    """Returns whether cufence allocates PyTorch's tensors in this process: by its class, or beneath cudaMallocAsync."""
    return _allocator.is_installed() or _is_beneath_torch()


def _is_beneath_torch() -> bool:
    return _preload.path() is not None and _preload.BENEATH in _preload.settings()[1]


def _import_torch() -> ModuleType:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(f"cufence.enable() needs PyTorch, which cannot be imported here: {error}") from error
    if torch.version.cuda is None:
        raise RuntimeError(f"cufence.enable() needs a PyTorch with CUDA; this one ({torch.__version__}) has none")
    return torch


def _check_not_started(torch: ModuleType) -> None:
    if torch.cuda.is_initialized():
        raise RuntimeError(
            "cufence.enable() comes too late: PyTorch has started CUDA already. Call it before the first CUDA tensor, "
            "best right after the imports; what starts CUDA is for example torch.zeros(1, device='cuda'), Tensor.cuda(), "
            "Module.to('cuda'), torch.cuda.init() and torch.cuda.get_device_properties()."
        )
    if torch._C._cuda_getAllocator() is not None:
        raise RuntimeError(
            "cufence.enable(): another CUDA allocator has been installed in PyTorch before, and there can be one"
        )


def _sync_callback(torch: ModuleType, scope: int) -> Callable[..., None]:
    before_sync = _library.load().cufence_torch_before_sync  # ctypes releases the GIL during the call
    is_capturing = torch._C._cuda_isCurrentStreamCapturing

    def callback(handle: int = 0) -> None:
        try:
            if is_capturing():
                return  # waiting is an error during capture; PyTorch's own call reports it
        except RuntimeError:
            return  # the context has already failed; PyTorch's own call reports it
        before_sync(scope, handle)

    return callback


def _create_streams_one_by_one(torch: ModuleType) -> None:
    """PyTorch calls the trace hooks of a new stream with a mutex held. The hook may hand the GIL to a thread that creates a
    stream too and waits for the mutex, with the GIL: both wait for ever. So one Python thread at a time creates streams."""
    create = torch.cuda.Stream.__new__
    lock = threading.RLock()
    os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]

    def locked(cls: Any, *arguments: Any, **named: Any) -> Any:
        if "stream_id" in named or "stream_ptr" in named:  # one that there is already
            return create(cls, *arguments, **named)
        with lock:
            return create(cls, *arguments, **named)

    torch.cuda.Stream.__new__ = locked


def _install_sync_callbacks(torch: ModuleType) -> None:
    """Makes PyTorch raise at the line that waits for a faulting kernel: see cufence_torch_before_sync() in torch.h."""
    _create_streams_one_by_one(torch)
    trace = importlib.import_module("torch.cuda._gpu_trace")
    for register, scope in _SYNC_HOOKS.items():
        getattr(trace, register)(_sync_callback(torch, scope))
    torch._C._activate_gpu_trace()


def _hand_to_preload(text: str) -> None:
    """Puts the options into the environment, where the preloaded cufence reads them when CUDA starts. Raises Error if it has
    already started with other options."""
    library = _library.load()
    _library.check(library.cufence_check_options(os.fsencode(text)), "cufence_check_options")
    before = os.environ.get(_OPTIONS, "").strip(", \t")
    missing = pairs(text).items() - pairs(before).items()
    if not missing:
        return
    if library.cufence_get_stats(-1, ctypes.byref(_library.Stats())) != _library.NOT_INITIALIZED:
        late = ", ".join(f"{key}={value}" for key, value in sorted(missing))
        raise _library.Error(
            f"cufence has started with CUDA, with the options '{before}'; {late} comes too late: call enable() before "
            f"PyTorch starts CUDA, or put it into {_OPTIONS}",
            _library.ALREADY_INITIALIZED,
        )
    os.environ[_OPTIONS] = f"{before},{text}" if before else text  # the last value of a key wins


def enable(**options: Unpack[Options]) -> None:
    """Starts cufence and makes it PyTorch's CUDA allocator.

    The keywords are cufence's options (`cufence options` lists them): enable(uaf="strict", align="auto", say="verbose").
    They override CUFENCE_OPTIONS in the environment. Call it before PyTorch starts CUDA. A second call with the same options
    does nothing. Under backend:cufence and `cufence run`, PyTorch's memory is guarded already; the options are checked, and
    take effect if CUDA has not started yet.

    Raises ValueError for an unknown option or a bad value, ImportError without PyTorch, cufence.Error if the library or the
    driver can't be used or other options are in effect, RuntimeError if PyTorch has already started CUDA or has no CUDA, or is
    none of the releases that cufence supports.
    """
    text = option_string(options)
    with _lock:
        if _preload.path():
            _hand_to_preload(text)
            text = ""  # the options are in the environment now
        if _is_beneath_torch():
            return
        library = _library.load()
        if _allocator.is_installed():
            _library.check(library.cufence_init(os.fsencode(text)), "cufence_init")  # fails if the options differ, and says how
            return
        torch = _import_torch()
        _check_not_started(torch)
        _library.check(library.cufence_init(os.fsencode(text)), "cufence_init")
        _allocator.install(torch)
        _install_sync_callbacks(torch)
        _patches.install()
        _tell.install()
